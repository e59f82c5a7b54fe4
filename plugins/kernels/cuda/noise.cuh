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

// The first output words of Philox for the counters (position low, position high, token, 0) of one key and position.
// What no token changes is computed once: the keys of the rounds, and of the first three rounds the products of words
// that do not depend on the token. A value in registers.
class RowWords {
 public:
  __device__ RowWords(std::uint64_t key, std::uint64_t position) {
    const auto low = static_cast<std::uint32_t>(position), high = static_cast<std::uint32_t>(position >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      k0_[round] = static_cast<std::uint32_t>(key) + static_cast<std::uint32_t>(round) * 0x9E3779B9u;
      k1_[round] = static_cast<std::uint32_t>(key >> 32) + static_cast<std::uint32_t>(round) * 0xBB67AE85u;
    }
    const std::uint32_t c2 = __umulhi(kFactor0, low) ^ k1_[0];  // after the first round
    k0_[0] ^= high;
    k0_[1] ^= __umulhi(kFactor1, c2);
    k1_[1] ^= kFactor0 * low;
    k0_[2] ^= kFactor1 * c2;
  }

  __device__ __forceinline__ std::uint32_t word(std::int32_t token) const {
    const uint2 first = product<kFactor1>(static_cast<std::uint32_t>(token));  // round 0
    const uint2 second = product<kFactor0>(first.y ^ k0_[0]);                  // round 1
    std::uint32_t c0 = first.x ^ k0_[1], c1 = 0, c2 = second.y ^ k1_[1], c3 = second.x;
#pragma unroll
    for (int round = 2; round < 10; ++round) {
      const uint2 p0 = product<kFactor0>(c0), p1 = product<kFactor1>(c2);
      c0 = p1.y ^ c1 ^ k0_[round];
      c1 = p1.x;
      c2 = p0.y ^ c3 ^ k1_[round];
      c3 = p0.x;
    }
    return c0;
  }

 private:
  // The low and the high word of a product: one instruction, where the compiler might choose two.
  template <std::uint32_t kFactor>
  __device__ __forceinline__ static uint2 product(std::uint32_t b) {
    std::uint64_t both;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(both) : "r"(b), "n"(kFactor));
    return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
  }

  static constexpr std::uint32_t kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u;
  std::uint32_t k0_[10], k1_[10];
};

// f32 cannot hold v near 1 or 1 - v near 0, so each half of r is evaluated from its own end.
__device__ __forceinline__ float gumbel(std::uint32_t r) {
  const bool upper = r >= 0x80000000u;
  const std::uint32_t s = upper ? ~r : r;
  const float w = __fmul_rn(__fadd_rn(__uint2float_rn(s), 0.5f), 0x1p-32f);
  return negative(log(negative(upper ? log(w) : log1p(negative(w)))));
}

}  // namespace mortise::cuda
