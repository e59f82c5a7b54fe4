// plugins/kernels/cuda/logits.cuh: clean logits, as head reductions and sampling read them (docs/numerics.md, "Head
// reductions"), and the order of tokens.
#pragma once

#include <cstdint>

#include "kernels/cuda/math.cuh"

namespace mortise::cuda {

__device__ __forceinline__ float no_logit() {
  return -infinity();
}

// NaN -> -infinity, +infinity -> the largest finite number, -0 and denormals -> +0.
__device__ __forceinline__ float clean(float x) {
  constexpr float kLargest = 0x1.fffffep+127f;
  float y = x == x ? x : no_logit();
  y = y < kLargest ? y : kLargest;
  return __fadd_rn(y, 0.0f);
}

// A code that ascends as clean logits descend. Tokens are ordered by (code, id).
__device__ __forceinline__ std::uint32_t descending_code(float x) {
  const std::uint32_t u = __float_as_uint(x);
  return (u >> 31) != 0 ? u : 0x7fffffffu - u;
}
__device__ __forceinline__ float logit_of_code(std::uint32_t code) {
  return __uint_as_float((code >> 31) != 0 ? code : 0x7fffffffu - code);
}

// A score and an id in one number. The maximum of such numbers is the largest score, and among equal scores the lowest
// id. 0 means no token.
__device__ __forceinline__ std::uint64_t packed_best(float score, std::int32_t id) {
  return static_cast<std::uint64_t>(0xffffffffu - descending_code(score)) << 32 |
         (0xffffffffu - static_cast<std::uint32_t>(id));
}
__device__ __forceinline__ std::int32_t id_of_best(std::uint64_t best) {
  return static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(best));
}
__device__ __forceinline__ float score_of_best(std::uint64_t best) {
  return logit_of_code(0xffffffffu - static_cast<std::uint32_t>(best >> 32));
}

// round(e * 2^32), ties to even, for e in [0, 1]: the weight of a token for top_p. Exact, since e has 24 bits.
__device__ __forceinline__ std::uint64_t weight_of(float e) {
  return __double2ull_rn(static_cast<double>(e) * 0x1p32);
}

// The largest value of the block, returned to every thread. `scratch` has one element per warp; kThreads is a multiple
// of 32.
template <int kThreads, class T>
__device__ __forceinline__ T block_max(T value, T* scratch) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    const T other = __shfl_down_sync(0xffffffffu, value, half);
    value = other > value ? other : value;
  }
  __syncthreads();  // scratch may still be in use by the preceding call
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) value = scratch[i] > value ? scratch[i] : value;
  return value;
}

// The same for a sum of integers.
template <int kThreads, class T>
__device__ __forceinline__ T block_sum(T value, T* scratch) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) value += __shfl_down_sync(0xffffffffu, value, half);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) value += scratch[i];
  return value;
}

}  // namespace mortise::cuda
