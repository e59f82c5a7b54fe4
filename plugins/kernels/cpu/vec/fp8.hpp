// plugins/kernels/cpu/vec/fp8.hpp: E4M3 numbers (a sign, four bits of exponent with bias 7, three of mantissa, no
// infinity) as f32, which is exact, and f32 rounded to E4M3. NaN does not occur.
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// The numbers in byte `i` of each word. With exponent 0 there is no implicit 1, so 2^-6 is added and subtracted again.
// Denormals of f32 do not occur.
template <unsigned i>
MORTISE_INLINE F32x16 widen_fp8(I32x16 words) {
  constexpr std::int32_t kBias = (127 - 7) << 23, kOne = 1 << 23;
  I32x16 sign = words, magnitude = words;
  if constexpr (i < 3) sign = shift_left<24 - 8 * i>(words);
  if constexpr (i < 3) magnitude = shift_left<20 - 8 * i>(words);
  if constexpr (i == 3) magnitude = shift_right<4>(words);
  sign = sign & broadcast_i32(static_cast<std::int32_t>(0x80000000u));
  magnitude = magnitude & broadcast_i32(0x07f00000);
  const F32x16 usual = from_bits(magnitude + broadcast_i32(kBias));
  const F32x16 small = from_bits(magnitude + broadcast_i32(kBias + kOne)) - broadcast(0x1p-6f);
  return from_bits(bits(select(gt(magnitude, broadcast_i32(kOne - 1)), usual, small)) | sign);
}

// Nearest, ties to even; the bits in the lowest byte of each lane. REQUIRES: |x| < 464.
MORTISE_INLINE I32x16 round_fp8(F32x16 x) {
  const I32x16 u = bits(x), magnitude = u & broadcast_i32(INT32_MAX);
  // Below 2^-6 neighbours are 2^-9 apart: adding 2^14 rounds to them.
  const F32x16 step = broadcast(0x1p14f);
  const I32x16 small = bits(from_bits(magnitude) + step) - bits(step);
  const I32x16 odd = shift_right<20>(magnitude) & broadcast_i32(1);
  const I32x16 usual = shift_right<20>(magnitude + odd + broadcast_i32(0x7ffff - ((127 - 7) << 23)));
  const I32x16 rounded = select(gt(broadcast_i32((127 - 6) << 23), magnitude), small, usual);
  return rounded | (shift_right<24>(u) & broadcast_i32(0x80));
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
