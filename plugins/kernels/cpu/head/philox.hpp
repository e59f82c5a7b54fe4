// plugins/kernels/cpu/head/philox.hpp: the counter-based generator Philox4x32-10, sixteen counters at a time.
//   (c0, c1, c2, c3) := (high(B c2) ^ c1 ^ k0, low(B c2), high(A c0) ^ c3 ^ k1, low(A c0));  k0 += W0, k1 += W1
//   ten rounds, with the constants A = 0xD2511F53, B = 0xCD9E8D57, W0 = 0x9E3779B9, W1 = 0xBB67AE85
// Shape: one counter per lane; only the first output word is kept.
// Order: integers, so there is none.
// Cost: about forty multiplications for sixteen counters. Errors: none.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// Oracle: reference/noise.hpp, bitwise (head/noise_test.cpp).
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

MORTISE_INLINE std::int32_t low_word(std::uint64_t x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x));
}
MORTISE_INLINE std::int32_t high_word(std::uint64_t x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x >> 32));
}

// The first output word for the counters (position low, position high, token, 0), one token per lane.
MORTISE_LARGE_INLINE I32x16 philox_first_word(std::uint64_t key, std::uint64_t position, I32x16 tokens) {
  const I32x16 multiplier0 = broadcast_i32(static_cast<std::int32_t>(0xD2511F53u));
  const I32x16 multiplier1 = broadcast_i32(static_cast<std::int32_t>(0xCD9E8D57u));
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  I32x16 c0 = broadcast_i32(low_word(position)), c1 = broadcast_i32(high_word(position));
  I32x16 c2 = tokens, c3 = broadcast_i32(0);
  for (int round = 0; round < 10; ++round) {
    const I32x16 high0 = mul_hi_u32(multiplier0, c0), low0 = mul_lo(multiplier0, c0);
    const I32x16 high1 = mul_hi_u32(multiplier1, c2), low1 = mul_lo(multiplier1, c2);
    c0 = high1 ^ c1 ^ broadcast_i32(static_cast<std::int32_t>(k0));
    c1 = low1;
    c2 = high0 ^ c3 ^ broadcast_i32(static_cast<std::int32_t>(k1));
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
