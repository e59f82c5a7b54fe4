// plugins/devices/cuda/matrix.hpp: a tensor that operations get, as the kernels take it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/types.hpp"
#include "mortise/tensor.h"

namespace mortise::cuda {

// A matrix in the GPU's memory, which somebody else owns; rows may have gaps between them. A value.
struct Matrix {
  std::byte* data;
  int32_t dtype;
  std::int64_t rows, columns;
  std::int64_t stride;  // elements from row to row

  ElementType type() const { return dtype == MORTISE_BF16 ? ElementType::kBf16 : ElementType::kF32; }
  std::int64_t element_bytes() const { return dtype == MORTISE_BF16 ? 2 : 4; }
  Rows view() const { return {data, stride}; }
};

// REQUIRES: the tensor passed check_matrix.
inline Matrix matrix_of(const mortise_tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data), tensor.dtype, tensor.shape[0], tensor.shape[1], tensor.stride[0]};
}

}  // namespace mortise::cuda
