#include "devices/checks/matrix.hpp"

#include "mortise/device.h"
#include "mortise/plugin.hpp"

namespace mortise {

std::string matrix_text(std::int32_t dtype, std::int64_t rows, std::int64_t columns) {
  const char* const name = dtype == MORTISE_BF16 ? "bf16" : "f32";
  return std::string(name) + " [" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

std::string matrix_text(const mortise_tensor& matrix) {
  return matrix_text(matrix.dtype, matrix.shape[0], matrix.shape[1]);
}

void check_matrix(const mortise_tensor* tensor, const char* where, const char* name) {
  if (tensor == nullptr) invalid(where, std::string(name) + " is missing");
  if (tensor->dtype != MORTISE_BF16 && tensor->dtype != MORTISE_F32) {
    invalid(where, std::string(name) + " has dtype code " + std::to_string(tensor->dtype) + "; expected bf16 or f32");
  }
  const std::int64_t rows = tensor->shape[0], columns = tensor->shape[1], stride = tensor->stride[0];
  if (tensor->ndim != 2 || rows < 0 || columns < 0 || rows > INT32_MAX || columns > INT32_MAX) {
    invalid(where, std::string(name) + " has " + std::to_string(tensor->ndim) + " dimensions, " + std::to_string(rows) +
                       " x " + std::to_string(columns) + "; expected 2 below 2^31");
  }
  if (rows == 0 || columns == 0) return;
  const auto wrong = [&](const std::string& how) {
    invalid(where, std::string(name) + " " + matrix_text(*tensor) + how);
  };
  const int bytes = dtype_bytes(tensor->dtype);
  if (tensor->data == nullptr) wrong(" has no memory");
  if (reinterpret_cast<std::uintptr_t>(tensor->data) % static_cast<std::uintptr_t>(bytes) != 0) {
    wrong(" does not begin at an element's boundary");
  }
  const bool rows_apart = rows == 1 || stride >= columns;
  if ((tensor->stride[1] != 1 && columns > 1) || !rows_apart) {
    wrong(" has strides " + std::to_string(stride) + ", " + std::to_string(tensor->stride[1]) +
          "; expected contiguous elements in each row");
  }
  const auto last_row = static_cast<__int128>(rows - 1) * (rows == 1 ? 0 : stride);
  if ((last_row + columns) * bytes > static_cast<__int128>(tensor->bytes)) {
    wrong(" does not fit its " + std::to_string(tensor->bytes) + " bytes");
  }
}

void require_same(const char* where, const char* a_name, const mortise_tensor& a, const char* b_name,
                  const mortise_tensor& b) {
  if (a.dtype == b.dtype && a.shape[0] == b.shape[0] && a.shape[1] == b.shape[1]) return;
  invalid(where, std::string(a_name) + " is " + matrix_text(a) + ", " + b_name + " is " + matrix_text(b) +
                     "; both must be the same");
}

void check_columns(const mortise_tensor& x, const std::int64_t* columns, std::int32_t world, const char* where) {
  bool ascends = columns[0] == 0 && columns[world] == x.shape[1];
  for (std::int32_t rank = 0; rank < world; ++rank) ascends = ascends && columns[rank] <= columns[rank + 1];
  if (ascends) return;
  invalid(where, "columns must ascend from 0 to the " + std::to_string(x.shape[1]) + " columns of x " + matrix_text(x));
}

void check_activation_code(std::int32_t activation, const char* where) {
  if (activation >= MORTISE_ACT_SILU && activation <= MORTISE_ACT_RELU) return;
  invalid(where, "activation " + std::to_string(activation) + "; expected silu, gelu, gelu_tanh or relu");
}

}  // namespace mortise
