// plugins/kernels/cpu/vec/fp4.hpp: E2M1 numbers (a sign, two bits of exponent with bias 1, one of mantissa, no infinity
// and no NaN: 0, 0.5, 1, 1.5, 2, 3, 4, 6) as f32, which is exact.
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// Half of the numbers in half byte `i` of each word.
template <unsigned i>
MORTISE_INLINE F32x16 half_of_fp4(I32x16 words) {
#if defined(MORTISE_ISA_AVX512)
  const __m512 numbers = _mm512_setr_ps(0.0f, 0.25f, 0.5f, 0.75f, 1.0f, 1.5f, 2.0f, 3.0f, -0.0f, -0.25f, -0.5f, -0.75f,
                                        -1.0f, -1.5f, -2.0f, -3.0f);
  return {_mm512_permutexvar_ps(shift_right<4 * i>(words).v, numbers)};
#else
  I32x16 sign = words;
  if constexpr (i < 7) sign = shift_left<28 - 4 * i>(words);
  sign = sign & broadcast_i32(INT32_MIN);
#if defined(MORTISE_ISA_AVX2)
  const __m256 numbers = _mm256_setr_ps(0.0f, 0.25f, 0.5f, 0.75f, 1.0f, 1.5f, 2.0f, 3.0f);
  const I32x16 index = shift_right<4 * i>(words);  // the instruction uses three bits
  const F32x16 magnitude = {_mm256_permutevar8x32_ps(numbers, index.lo), _mm256_permutevar8x32_ps(numbers, index.hi)};
  return from_bits(bits(magnitude) | sign);
#else
  // With exponent 0 there is no implicit 1, so 0.5 is added and subtracted again. Denormals of f32 do not occur.
  constexpr std::int32_t kBias = (127 - 2) << 23, kOne = 1 << 23;
  const I32x16 field = shift_left<22>(shift_right<4 * i>(words) & broadcast_i32(7));
  const F32x16 usual = from_bits(field + broadcast_i32(kBias));
  const F32x16 small = from_bits(field + broadcast_i32(kBias + kOne)) - broadcast(0.5f);
  return from_bits(bits(select(gt(field, broadcast_i32(kOne - 1)), usual, small)) | sign);
#endif
#endif
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
