// plugins/devices/cpu/matrix.hpp: a tensor that operations get, as the kernels take it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/plugin.hpp"

namespace mortise::cpu {

// A matrix in memory that somebody else owns; rows may have gaps between them. A value.
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

// REQUIRES: the tensor passed check_matrix.
inline Matrix matrix_of(const mortise_tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data), tensor.dtype, static_cast<std::size_t>(tensor.shape[0]),
          static_cast<std::size_t>(tensor.shape[1]), static_cast<std::size_t>(tensor.stride[0])};
}

}  // namespace mortise::cpu
