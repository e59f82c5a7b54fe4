// plugins/kernels/cpu/vec/avx2.hpp: the AVX2 + FMA backend of vec.hpp: two registers per vector, lanes 0-7 in `lo` and
// 8-15 in `hi`.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct Mask16 {
  __m256 lo, hi;  // each lane is all ones or all zeros
};

MORTISE_INLINE __m256i as_int(__m256 a) {
  return _mm256_castps_si256(a);
}
MORTISE_INLINE __m256 as_float(__m256i a) {
  return _mm256_castsi256_ps(a);
}

MORTISE_INLINE Mask16 first_lanes(std::size_t n) {
  const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
  return {as_float(_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))),
          as_float(_mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)))};
}
MORTISE_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)};
}
MORTISE_INLINE Mask16 operator|(Mask16 a, Mask16 b) {
  return {_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)};
}
MORTISE_INLINE Mask16 operator!(Mask16 a) {
  const __m256 ones = as_float(_mm256_set1_epi32(-1));
  return {_mm256_xor_ps(a.lo, ones), _mm256_xor_ps(a.hi, ones)};
}
MORTISE_INLINE std::uint32_t mask_bits(Mask16 a) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(a.lo)) | static_cast<std::uint32_t>(_mm256_movemask_ps(a.hi))
                                                                    << 8;
}
MORTISE_INLINE bool any(Mask16 a) {
  return mask_bits(a) != 0;
}

MORTISE_INLINE F32x16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
MORTISE_INLINE F32x16 load_tail(const float* p, std::size_t n) {
  const Mask16 m = first_lanes(n);
  return {_mm256_maskload_ps(p, as_int(m.lo)), _mm256_maskload_ps(p + 8, as_int(m.hi))};
}
MORTISE_INLINE void store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
MORTISE_INLINE void store_tail(float* p, F32x16 a, std::size_t n) {
  const Mask16 m = first_lanes(n);
  _mm256_maskstore_ps(p, as_int(m.lo), a.lo);
  _mm256_maskstore_ps(p + 8, as_int(m.hi), a.hi);
}
MORTISE_INLINE F32x16 broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
MORTISE_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
MORTISE_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
MORTISE_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
MORTISE_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
MORTISE_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
MORTISE_INLINE F32x16 fma_exact_product(F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}
MORTISE_INLINE F32x16 sqrt(F32x16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
MORTISE_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
MORTISE_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
MORTISE_INLINE Mask16 lt(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
MORTISE_INLINE Mask16 le(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
}
MORTISE_INLINE Mask16 gt(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ)};
}
MORTISE_INLINE Mask16 ge(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)};
}
MORTISE_INLINE Mask16 eq(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
MORTISE_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}

MORTISE_INLINE I32x16 load_i32(const std::int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
MORTISE_INLINE I32x16 load_i32_tail(const std::int32_t* p, std::size_t n) {
  const Mask16 m = first_lanes(n);
  return {_mm256_maskload_epi32(p, as_int(m.lo)), _mm256_maskload_epi32(p + 8, as_int(m.hi))};
}
MORTISE_INLINE void store(std::int32_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
MORTISE_INLINE void store_tail(std::int32_t* p, I32x16 a, std::size_t n) {
  const Mask16 m = first_lanes(n);
  _mm256_maskstore_epi32(p, as_int(m.lo), a.lo);
  _mm256_maskstore_epi32(p + 8, as_int(m.hi), a.hi);
}
MORTISE_INLINE I32x16 broadcast_i32(std::int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
MORTISE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
MORTISE_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
MORTISE_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
MORTISE_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
MORTISE_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
MORTISE_INLINE I32x16 mul_lo(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
MORTISE_INLINE I32x16 add_products_i16(I32x16 sum, I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.lo, b.lo)),
          _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.hi, b.hi))};
}
MORTISE_INLINE I32x16 max(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
MORTISE_INLINE __m256i mul_hi_u32_half(__m256i a, __m256i b) {
  const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return _mm256_blend_epi32(even, odd, 0xaa);
}
MORTISE_INLINE I32x16 mul_hi_u32(I32x16 a, I32x16 b) {
  return {mul_hi_u32_half(a.lo, b.lo), mul_hi_u32_half(a.hi, b.hi)};
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right(I32x16 a) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right_signed(I32x16 a) {
  return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
MORTISE_INLINE Mask16 eq(I32x16 a, I32x16 b) {
  return {as_float(_mm256_cmpeq_epi32(a.lo, b.lo)), as_float(_mm256_cmpeq_epi32(a.hi, b.hi))};
}
MORTISE_INLINE Mask16 gt(I32x16 a, I32x16 b) {
  return {as_float(_mm256_cmpgt_epi32(a.lo, b.lo)), as_float(_mm256_cmpgt_epi32(a.hi, b.hi))};
}
MORTISE_INLINE I32x16 select(Mask16 m, I32x16 a, I32x16 b) {
  return {_mm256_blendv_epi8(b.lo, a.lo, as_int(m.lo)), _mm256_blendv_epi8(b.hi, a.hi, as_int(m.hi))};
}
MORTISE_INLINE F32x16 to_float(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
MORTISE_INLINE I32x16 to_int(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
MORTISE_INLINE I32x16 load_u8(const std::uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
MORTISE_INLINE I32x16 load_i8(const std::int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
MORTISE_INLINE void store_i8(std::int8_t* p, I32x16 a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
MORTISE_INLINE void store_i8_even_odd(std::int8_t* p, I32x16 even, I32x16 odd) {
  const __m256i lo = _mm256_blend_epi16(even.lo, _mm256_slli_epi32(odd.lo, 16), 0xaa);
  const __m256i hi = _mm256_blend_epi16(even.hi, _mm256_slli_epi32(odd.hi, 16), 0xaa);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(_mm256_packs_epi16(lo, hi), 0xd8));
}
MORTISE_INLINE I32x16 bits(F32x16 a) {
  return {as_int(a.lo), as_int(a.hi)};
}
MORTISE_INLINE F32x16 from_bits(I32x16 a) {
  return {as_float(a.lo), as_float(a.hi)};
}

MORTISE_INLINE F32x16 load_bf16(const Bf16* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {as_float(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16)),
          as_float(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)), 16))};
}
// AVX2 has no masked load or store of 16-bit elements, so a tail is copied.
MORTISE_INLINE F32x16 load_bf16_tail(const Bf16* p, std::size_t n) {
  Bf16 copy[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) copy[i] = p[i];
  return load_bf16(copy);
}
// The conversion keeps denormals of f16, whatever the control register says.
MORTISE_INLINE F32x16 load_f16(const F16* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
MORTISE_INLINE __m256i narrow_bf16_half(__m256 a) {
  const __m256i u = as_int(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i is_nan = as_int(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
}
MORTISE_INLINE void store_bf16(Bf16* p, F32x16 a) {
  const __m256i packed = _mm256_packus_epi32(narrow_bf16_half(a.lo), narrow_bf16_half(a.hi));
  // packus interleaves the 128-bit quarters: lo0 hi0 lo1 hi1.
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
MORTISE_INLINE void store_bf16_tail(Bf16* p, F32x16 a, std::size_t n) {
  Bf16 copy[kLanes];
  store_bf16(copy, a);
  for (std::size_t i = 0; i < n; ++i) p[i] = copy[i];
}

MORTISE_INLINE float sum(F32x16 a) {
  const __m256 x8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_add_ss(x2, _mm_shuffle_ps(x2, x2, 1)));
}
MORTISE_INLINE float max(F32x16 a) {
  const __m256 x8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_max_ss(x2, _mm_shuffle_ps(x2, x2, 1)));
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
