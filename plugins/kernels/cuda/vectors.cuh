// plugins/kernels/cuda/vectors.cuh: loads and stores of eight consecutive elements, 16 bytes at a time. For rows that
// rows_aligned() accepts.
#pragma once

#include <cstdint>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

constexpr int kVector = 8;

struct Vector {
  float x[kVector];
};

__device__ __forceinline__ Vector load_vector(const Bf16* p) {
  Vector v;
  unpack(*reinterpret_cast<const uint4*>(p), v.x);
  return v;
}
__device__ __forceinline__ Vector load_vector(const float* p) {
  const float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
__device__ __forceinline__ void store_vector(Bf16* p, const Vector& v) {
  *reinterpret_cast<uint4*>(p) = packed_eight(v.x);
}
__device__ __forceinline__ void store_vector(float* p, const Vector& v) {
  float x[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) x[i] = canonical_nan(v.x[i]);
  reinterpret_cast<float4*>(p)[0] = {x[0], x[1], x[2], x[3]};
  reinterpret_cast<float4*>(p)[1] = {x[4], x[5], x[6], x[7]};
}

// Whether every row of `rows` begins at a multiple of 16 bytes.
inline bool rows_aligned(const Rows& rows, ElementType type) {
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && rows.stride * element_bytes(type) % 16 == 0;
}

}  // namespace mortise::cuda
