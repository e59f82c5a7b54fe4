// matrix.hpp: tensors that operations are given, checked once: two dimensions, dense rows, within their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "devices/cuda/errors.hpp"
#include "kernels/cuda/types.hpp"
#include "mortise/device.h"

namespace mortise::cuda {

struct Matrix {
  std::byte* data;
  int32_t dtype;
  std::int64_t rows, columns;
  std::int64_t stride;  // elements from row to row

  ElementType type() const { return dtype == MORTISE_BF16 ? ElementType::kBf16 : ElementType::kF32; }
  std::int64_t element_bytes() const { return dtype == MORTISE_BF16 ? 2 : 4; }
  Rows view() const { return {data, stride}; }
};

std::string shape_text(const Matrix& matrix);

// Throws Failure(INVALID_ARGUMENT) if it is none of bf16 or f32 with unit columns inside its `bytes`. `where` is the
// operation, `name` the tensor's in the header.
Matrix as_matrix(const mortise_tensor* tensor, const char* where, const char* name);

// Throws unless both have the same shape and dtype.
void require_same(const char* where, const char* a_name, const Matrix& a, const char* b_name, const Matrix& b);

// Throws unless it is one of MORTISE_ACT_*.
Activation checked_activation(int32_t activation, const char* where);

}  // namespace mortise::cuda
