// plugins/kernels/cpu/reference/scalar.hpp: helpers of the scalar references: bf16, the canonical NaN, the tree over
// sixteen lanes.
#pragma once

#include "kernels/cpu/types.hpp"
#include "kernels/cpu/vec/soft_float.hpp"

namespace mortise::cpu::reference {

inline float canonical_nan(float x) {
  return x == x ? x : bit_cast_to<float>(0x7fc00000u);
}

inline float from_bf16(Bf16 h) {
  return bit_cast_to<float>(static_cast<std::uint32_t>(h) << 16);
}

// Rounds to nearest, ties to even; NaN becomes the canonical NaN.
inline Bf16 to_bf16(float x) {
  if (x != x) return 0x7fc0;
  const std::uint32_t u = bit_cast_to<std::uint32_t>(x);
  return static_cast<Bf16>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

// Loads and stores by element type.
inline float get(Bf16 h) {
  return from_bf16(h);
}
inline float get(float x) {
  return x;
}
inline void put(Bf16& out, float x) {
  out = to_bf16(x);
}
inline void put(float& out, float x) {
  out = canonical_nan(x);
}

// The tree over sixteen lanes, for sums and maxima: lane i with i + 8, then + 4, + 2, + 1.
inline float tree_sum(const float (&lanes)[16]) {
  float v[16];
  for (int i = 0; i < 16; ++i) v[i] = lanes[i];
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] = v[i] + v[i + half];
  }
  return v[0];
}

}  // namespace mortise::cpu::reference
