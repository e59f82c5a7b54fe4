#include "devices/cuda/matrix.hpp"

namespace mortise::cuda {

std::string shape_text(const Matrix& matrix) {
  const char* dtype = matrix.dtype == MORTISE_BF16 ? "bf16" : "f32";
  return std::string(dtype) + " [" + std::to_string(matrix.rows) + ", " + std::to_string(matrix.columns) + "]";
}

Matrix as_matrix(const mortise_tensor* tensor, const char* where, const char* name) {
  if (tensor == nullptr) invalid(where, std::string(name) + " is missing");
  if (tensor->dtype != MORTISE_BF16 && tensor->dtype != MORTISE_F32) {
    invalid(where, std::string(name) + " has dtype code " + std::to_string(tensor->dtype) + "; expected bf16 or f32");
  }
  if (tensor->ndim != 2 || tensor->shape[0] < 0 || tensor->shape[1] < 0 || tensor->shape[0] > INT32_MAX ||
      tensor->shape[1] > INT32_MAX) {
    invalid(where, std::string(name) + " has " + std::to_string(tensor->ndim) + " dimensions, " +
                       std::to_string(tensor->shape[0]) + " x " + std::to_string(tensor->shape[1]) +
                       "; expected 2 below 2^31");
  }
  const Matrix matrix = {static_cast<std::byte*>(tensor->data), tensor->dtype, tensor->shape[0], tensor->shape[1],
                         tensor->stride[0]};
  if (matrix.rows == 0 || matrix.columns == 0) return matrix;
  if (tensor->data == nullptr) invalid(where, std::string(name) + " " + shape_text(matrix) + " has no memory");
  if (reinterpret_cast<std::uintptr_t>(tensor->data) % static_cast<std::uintptr_t>(matrix.element_bytes()) != 0) {
    invalid(where, std::string(name) + " " + shape_text(matrix) + " does not begin at an element's boundary");
  }
  const bool rows_apart = matrix.rows == 1 || tensor->stride[0] >= tensor->shape[1];
  if ((tensor->stride[1] != 1 && matrix.columns > 1) || !rows_apart) {
    invalid(where, std::string(name) + " " + shape_text(matrix) + " has strides " + std::to_string(tensor->stride[0]) +
                       ", " + std::to_string(tensor->stride[1]) + "; expected rows of neighbouring elements");
  }
  const auto last_row = static_cast<__int128>(matrix.rows - 1) * (matrix.rows == 1 ? 0 : matrix.stride);
  if ((last_row + matrix.columns) * matrix.element_bytes() > static_cast<__int128>(tensor->bytes)) {
    invalid(where, std::string(name) + " " + shape_text(matrix) + " does not fit its " + std::to_string(tensor->bytes) +
                       " bytes");
  }
  return matrix;
}

void require_same(const char* where, const char* a_name, const Matrix& a, const char* b_name, const Matrix& b) {
  if (a.dtype == b.dtype && a.rows == b.rows && a.columns == b.columns) return;
  invalid(where, std::string(a_name) + " is " + shape_text(a) + ", " + b_name + " is " + shape_text(b) +
                     "; both must be the same");
}

Activation checked_activation(int32_t activation, const char* where) {
  if (activation < MORTISE_ACT_SILU || activation > MORTISE_ACT_RELU) {
    invalid(where, "activation " + std::to_string(activation) + "; expected silu, gelu, gelu_tanh or relu");
  }
  return static_cast<Activation>(activation);
}

}  // namespace mortise::cuda
