// plugins/kernels/cuda/bf16.cuh: how kernels read and write elements (docs/numerics.md, "Rules for everything"): a bf16
// is its 16 bits, and every stored NaN is the canonical NaN.
#pragma once

#include <cstdint>

namespace mortise::cuda {

using Bf16 = std::uint16_t;  // the bits of a bfloat16

__device__ __forceinline__ float from_bf16(Bf16 h) {
  return __uint_as_float(static_cast<std::uint32_t>(h) << 16);
}

// Rounds to nearest, ties to even; NaN becomes the canonical NaN. Keeps denormals, since a conversion is no arithmetic.
__device__ __forceinline__ Bf16 to_bf16(float x) {
  const std::uint32_t u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<Bf16>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

__device__ __forceinline__ float canonical_nan(float x) {
  return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u ? __uint_as_float(0x7fc00000u) : x;
}

// Loads and stores by element type.
__device__ __forceinline__ float get(Bf16 h) {
  return from_bf16(h);
}
__device__ __forceinline__ float get(float x) {
  return x;
}
__device__ __forceinline__ void put(Bf16& out, float x) {
  out = to_bf16(x);
}
__device__ __forceinline__ void put(float& out, float x) {
  out = canonical_nan(x);
}

// Rounds to the type T and returns an f32.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    return from_bf16(to_bf16(x));
  } else {
    return x;
  }
}

}  // namespace mortise::cuda
