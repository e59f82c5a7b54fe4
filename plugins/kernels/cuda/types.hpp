// plugins/kernels/cuda/types.hpp: argument types of kernels, for headers that host code includes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

enum class ElementType : std::int32_t { kBf16, kF32 };
constexpr std::int64_t element_bytes(ElementType type) {
  return type == ElementType::kBf16 ? 2 : 4;
}

// The codes of mortise/device.h.
enum class Activation : std::int32_t { kSilu = 1, kGelu = 2, kGeluTanh = 3, kRelu = 4 };

// A matrix in device memory: elements of a row are contiguous, rows are `stride` elements apart.
struct Rows {
  void* data;
  std::int64_t stride;
};

}  // namespace mortise::cuda
