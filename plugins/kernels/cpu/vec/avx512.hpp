// plugins/kernels/cpu/vec/avx512.hpp: the AVX-512 backend of vec.hpp (F, BW, DQ, VL): one register per vector.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 v;
};

MORTISE_INLINE Mask16 first_lanes(std::size_t n) {
  return {static_cast<__mmask16>((1u << n) - 1u)};
}
MORTISE_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return {static_cast<__mmask16>(a.v & b.v)};
}
MORTISE_INLINE Mask16 operator|(Mask16 a, Mask16 b) {
  return {static_cast<__mmask16>(a.v | b.v)};
}
MORTISE_INLINE Mask16 operator!(Mask16 a) {
  return {static_cast<__mmask16>(~a.v)};
}
MORTISE_INLINE bool any(Mask16 a) {
  return a.v != 0;
}
MORTISE_INLINE std::uint32_t mask_bits(Mask16 a) {
  return a.v;
}

MORTISE_INLINE F32x16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
MORTISE_INLINE F32x16 load_tail(const float* p, std::size_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n).v, p)};
}
MORTISE_INLINE void store(float* p, F32x16 a) {
  _mm512_storeu_ps(p, a.v);
}
MORTISE_INLINE void store_tail(float* p, F32x16 a, std::size_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n).v, a.v);
}
MORTISE_INLINE F32x16 broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
MORTISE_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
MORTISE_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
MORTISE_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
MORTISE_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
MORTISE_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
MORTISE_INLINE F32x16 fma_exact_product(F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}
// a b - c
MORTISE_INLINE F32x16 fma_minus(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmsub_ps(a.v, b.v, c.v)};
}
// 1 - a b
MORTISE_INLINE F32x16 one_minus(F32x16 a, F32x16 b) {
  return {_mm512_fnmadd_ps(a.v, b.v, _mm512_set1_ps(1.0f))};
}
// 1 / a with a relative error of at most 2^-14.
MORTISE_INLINE F32x16 approximate_reciprocal(F32x16 a) {
  return {_mm512_rcp14_ps(a.v)};
}
MORTISE_INLINE F32x16 sqrt(F32x16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
MORTISE_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
MORTISE_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
MORTISE_INLINE Mask16 lt(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
MORTISE_INLINE Mask16 le(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
MORTISE_INLINE Mask16 gt(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)};
}
MORTISE_INLINE Mask16 ge(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)};
}
MORTISE_INLINE Mask16 eq(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
MORTISE_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm512_mask_blend_ps(m.v, b.v, a.v)};
}

MORTISE_INLINE I32x16 load_i32(const std::int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
MORTISE_INLINE I32x16 load_i32_tail(const std::int32_t* p, std::size_t n) {
  return {_mm512_maskz_loadu_epi32(first_lanes(n).v, p)};
}
MORTISE_INLINE void store(std::int32_t* p, I32x16 a) {
  _mm512_storeu_si512(p, a.v);
}
MORTISE_INLINE void store_tail(std::int32_t* p, I32x16 a, std::size_t n) {
  _mm512_mask_storeu_epi32(p, first_lanes(n).v, a.v);
}
MORTISE_INLINE I32x16 broadcast_i32(std::int32_t x) {
  return {_mm512_set1_epi32(x)};
}
MORTISE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
MORTISE_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
MORTISE_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
MORTISE_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
MORTISE_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
MORTISE_INLINE I32x16 mul_lo(I32x16 a, I32x16 b) {
  return {_mm512_mullo_epi32(a.v, b.v)};
}
MORTISE_INLINE I32x16 add_products_i16(I32x16 sum, I32x16 a, I32x16 b) {
#if defined(__AVX512VNNI__)
  return {_mm512_dpwssd_epi32(sum.v, a.v, b.v)};
#else
  return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(a.v, b.v))};
#endif
}
MORTISE_INLINE I32x16 max(I32x16 a, I32x16 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
MORTISE_INLINE I32x16 mul_hi_u32(I32x16 a, I32x16 b) {
  const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a.v, b.v), 32);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  return {_mm512_mask_blend_epi32(0xaaaa, even, odd)};
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, n)};
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right(I32x16 a) {
  return {_mm512_srli_epi32(a.v, n)};
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right_signed(I32x16 a) {
  return {_mm512_srai_epi32(a.v, n)};
}
MORTISE_INLINE Mask16 eq(I32x16 a, I32x16 b) {
  return {_mm512_cmpeq_epi32_mask(a.v, b.v)};
}
MORTISE_INLINE Mask16 gt(I32x16 a, I32x16 b) {
  return {_mm512_cmpgt_epi32_mask(a.v, b.v)};
}
MORTISE_INLINE I32x16 select(Mask16 m, I32x16 a, I32x16 b) {
  return {_mm512_mask_blend_epi32(m.v, b.v, a.v)};
}
MORTISE_INLINE F32x16 to_float(I32x16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
MORTISE_INLINE I32x16 to_int(F32x16 a) {
  return {_mm512_cvtps_epi32(a.v)};
}
MORTISE_INLINE I32x16 load_u8(const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
MORTISE_INLINE I32x16 load_i8(const std::int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
MORTISE_INLINE void store_i8(std::int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
MORTISE_INLINE void store_i8_even_odd(std::int8_t* p, I32x16 even, I32x16 odd) {
  const __m512i words = _mm512_mask_mov_epi16(even.v, 0xaaaaaaaau, _mm512_slli_epi32(odd.v, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi16_epi8(words));
}
MORTISE_INLINE I32x16 bits(F32x16 a) {
  return {_mm512_castps_si512(a.v)};
}
MORTISE_INLINE F32x16 from_bits(I32x16 a) {
  return {_mm512_castsi512_ps(a.v)};
}

MORTISE_INLINE F32x16 widen_bf16(__m256i h) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
}
MORTISE_INLINE F32x16 load_bf16(const Bf16* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
MORTISE_INLINE F32x16 load_bf16_tail(const Bf16* p, std::size_t n) {
  return widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(n).v, p));
}
// The conversion keeps denormals of f16, whatever the control register says.
MORTISE_INLINE F32x16 load_f16(const F16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
#if defined(__AVX512BF16__)
// The rounding is one instruction, vcvtneps2bf16. It treats denormals as zero, so use this for results of arithmetic
// only (denormals are off). Its NaN is not the canonical one, so lanes with NaN are replaced.
MORTISE_INLINE __m256i narrow_bf16(F32x16 a) {
  const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(a.v);
  return _mm256_mask_mov_epi16(rounded, _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), _mm256_set1_epi16(0x7fc0));
}
MORTISE_INLINE void store_bf16_pair(Bf16* p, F32x16 a, F32x16 b) {
  const __mmask32 nan =
      _mm512_kunpackw(_mm512_cmp_ps_mask(b.v, b.v, _CMP_UNORD_Q), _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q));
  const __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(b.v, a.v);
  _mm512_storeu_si512(p, _mm512_mask_mov_epi16(rounded, nan, _mm512_set1_epi16(0x7fc0)));
}
#else
MORTISE_INLINE __m256i narrow_bf16(F32x16 a) {
  const __m512i u = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
  return _mm512_cvtepi32_epi16(
      _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), rounded, _mm512_set1_epi32(0x7fc0)));
}
#endif
// Rounds a to bf16 and back. REQUIRES: a is not NaN.
MORTISE_INLINE F32x16 round_bf16_number(F32x16 a) {
#if defined(__AVX512BF16__)
  return widen_bf16((__m256i)_mm512_cvtneps_pbh(a.v));
#else
  const __m512i u = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  return {_mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(static_cast<std::int32_t>(0xffff0000u))))};
#endif
}
MORTISE_INLINE void store_bf16(Bf16* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(a));
}
MORTISE_INLINE void store_bf16_tail(Bf16* p, F32x16 a, std::size_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n).v, narrow_bf16(a));
}

MORTISE_INLINE float sum(F32x16 a) {
  const __m256 x8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_add_ss(x2, _mm_shuffle_ps(x2, x2, 1)));
}
MORTISE_INLINE float max(F32x16 a) {
  const __m256 x8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_max_ss(x2, _mm_shuffle_ps(x2, x2, 1)));
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
