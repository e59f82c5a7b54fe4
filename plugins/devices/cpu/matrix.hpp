// matrix.hpp: what operations are given, checked once: tensors (two dimensions, dense rows, within their memory) and
// activations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cpu/rows/activation.hpp"
#include "mortise/plugin.hpp"

namespace mortise::cpu {

struct Matrix {
  std::byte* data;
  int32_t dtype;
  std::size_t rows, columns;
  std::size_t stride;  // elements from row to row

  std::size_t row_bytes() const { return columns * static_cast<std::size_t>(dtype_bytes(dtype)); }
  std::byte* row(std::size_t i) const { return data + i * stride * static_cast<std::size_t>(dtype_bytes(dtype)); }
  template <typename T>
  T* row_of(std::size_t i) const {
    return reinterpret_cast<T*>(row(i));
  }
  bool dense() const { return stride == columns || rows <= 1; }
};

std::string shape_text(const Matrix& matrix);

[[noreturn]] void invalid(const char* where, const std::string& message);

// A tensor as a matrix. Throws Failure(INVALID_ARGUMENT) if it is none of bf16 or f32 with unit columns inside its
// `bytes`. `where` is the operation, `name` the tensor's in the header.
Matrix as_matrix(const mortise_tensor* tensor, const char* where, const char* name);

// Throws unless both have the same shape and dtype.
void require_same(const char* where, const char* a_name, const Matrix& a, const char* b_name, const Matrix& b);

// Throws unless it is one of MORTISE_ACT_*.
Activation checked_activation(int32_t activation, const char* where);

}  // namespace mortise::cpu
