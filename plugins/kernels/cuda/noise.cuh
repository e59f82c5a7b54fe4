// plugins/kernels/cuda/noise.cuh: Gumbel noise as a function of (key, position, token):
// plugins/kernels/cpu/head/noise.hpp and philox.hpp for one token at a time.
// Source of Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// Oracle: kernels/cpu/reference/noise.hpp, bitwise (tests/plugins/devices/cuda/head_test.cpp).
#pragma once

#include <cstdint>

#include "kernels/cuda/math.cuh"

namespace mortise::cuda {

// The first two output words for the counter (position low, position high, c2, c3).
__device__ __forceinline__ uint2 philox_words(std::uint64_t key, std::uint64_t position, std::uint32_t c2,
                                              std::uint32_t c3) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c0 = static_cast<std::uint32_t>(position), c1 = static_cast<std::uint32_t>(position >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const std::uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1};
}

// The first output word for the counter (position low, position high, token, 0).
__device__ __forceinline__ std::uint32_t philox_first_word(std::uint64_t key, std::uint64_t position,
                                                           std::int32_t token) {
  return philox_words(key, position, static_cast<std::uint32_t>(token), 0).x;
}

// f32 cannot hold v near 1 or 1 - v near 0, so each half of r is evaluated from its own end.
__device__ __forceinline__ float gumbel(std::uint32_t r) {
  const bool upper = r >= 0x80000000u;
  const std::uint32_t s = upper ? ~r : r;
  const float w = __fmul_rn(__fadd_rn(__uint2float_rn(s), 0.5f), 0x1p-32f);
  return negative(log(negative(upper ? log(w) : log1p(negative(w)))));
}

}  // namespace mortise::cuda
