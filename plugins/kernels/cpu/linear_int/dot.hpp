// plugins/kernels/cpu/linear_int/dot.hpp: dot products of four bytes per lane, unsigned weights times signed
// activations: exact, without saturation. A lane of an I32x16 holds four neighbouring k of one column. For each
// instruction set and weight width:
//   IntDot<bits>::Weights, weights(raw)   16 columns x 4 k of weights, prepared once
//   IntDot<bits>::kOffset                 subtracted from each weight value before the multiplication
//   accumulate(partial, w, x)             adds to `partial`, which starts at zero and takes at most 8 products
//   finish(acc, partial)                  adds `partial` to 32-bit sums
// REQUIRES: x is in -127 .. 127. On AVX2 and AVX-512 vpmaddubsw adds two products in 16 bits, and would saturate
// otherwise.
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

template <int bits>
struct IntDot;

#if defined(MORTISE_ISA_AVX512)

#if defined(__AVX512VNNI__)

// Products of four bytes, as vpdpbusd adds them. Has no state.
struct VnniDot {
  using Weights = I32x16;
  static constexpr std::int32_t kOffset = 0;
  static MORTISE_INLINE Weights weights(I32x16 raw) { return raw; }
  static MORTISE_INLINE I32x16 accumulate(I32x16 partial, Weights w, I32x16 x) {
    return {_mm512_dpbusd_epi32(partial.v, w.v, x.v)};
  }
  static MORTISE_INLINE I32x16 finish(I32x16 acc, I32x16 partial) { return acc + partial; }
};
template <>
struct IntDot<8> : VnniDot {};
template <>
struct IntDot<4> : VnniDot {};

#else

// |w| <= 128 as an unsigned byte, its sign moved to x: two products sum to at most 2 * 128 * 127 < 2^15.
template <>
struct IntDot<8> {
  struct Weights {
    __m512i magnitude;
    __mmask64 negative;
  };
  static constexpr std::int32_t kOffset = 128;
  static MORTISE_INLINE Weights weights(I32x16 raw) {
    const __m512i w = _mm512_xor_si512(raw.v, _mm512_set1_epi8(-128));
    return {_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
  }
  static MORTISE_INLINE I32x16 accumulate(I32x16 partial, Weights w, I32x16 x) {
    const __m512i signed_x = _mm512_mask_sub_epi8(x.v, w.negative, _mm512_setzero_si512(), x.v);
    const __m512i pairs = _mm512_maddubs_epi16(w.magnitude, signed_x);
    return {_mm512_add_epi32(partial.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
  }
  static MORTISE_INLINE I32x16 finish(I32x16 acc, I32x16 partial) { return acc + partial; }
};
// Eight sums of two products of at most 15 * 127 fit 16 bits: 30480.
template <>
struct IntDot<4> {
  using Weights = I32x16;
  static constexpr std::int32_t kOffset = 0;
  static MORTISE_INLINE Weights weights(I32x16 raw) { return raw; }
  static MORTISE_INLINE I32x16 accumulate(I32x16 partial, Weights w, I32x16 x) {
    return {_mm512_add_epi16(partial.v, _mm512_maddubs_epi16(w.v, x.v))};
  }
  static MORTISE_INLINE I32x16 finish(I32x16 acc, I32x16 partial) {
    return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(partial.v, _mm512_set1_epi16(1)))};
  }
};

#endif

#elif defined(MORTISE_ISA_AVX2)

// |w| <= 128 as an unsigned byte, its sign moved to x: two products sum to at most 2 * 128 * 127 < 2^15.
template <>
struct IntDot<8> {
  struct Weights {
    __m256i magnitude_lo, magnitude_hi, sign_lo, sign_hi;
  };
  static constexpr std::int32_t kOffset = 128;
  static MORTISE_INLINE Weights weights(I32x16 raw) {
    const __m256i lo = _mm256_xor_si256(raw.lo, _mm256_set1_epi8(-128));
    const __m256i hi = _mm256_xor_si256(raw.hi, _mm256_set1_epi8(-128));
    return {_mm256_abs_epi8(lo), _mm256_abs_epi8(hi), lo, hi};
  }
  static MORTISE_INLINE __m256i half(__m256i partial, __m256i magnitude, __m256i sign, __m256i x) {
    const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, sign));
    return _mm256_add_epi32(partial, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static MORTISE_INLINE I32x16 accumulate(I32x16 partial, Weights w, I32x16 x) {
    return {half(partial.lo, w.magnitude_lo, w.sign_lo, x.lo), half(partial.hi, w.magnitude_hi, w.sign_hi, x.hi)};
  }
  static MORTISE_INLINE I32x16 finish(I32x16 acc, I32x16 partial) { return acc + partial; }
};
// Eight sums of two products of at most 15 * 127 fit 16 bits: 30480.
template <>
struct IntDot<4> {
  using Weights = I32x16;
  static constexpr std::int32_t kOffset = 0;
  static MORTISE_INLINE Weights weights(I32x16 raw) { return raw; }
  static MORTISE_INLINE I32x16 accumulate(I32x16 partial, Weights w, I32x16 x) {
    return {_mm256_add_epi16(partial.lo, _mm256_maddubs_epi16(w.lo, x.lo)),
            _mm256_add_epi16(partial.hi, _mm256_maddubs_epi16(w.hi, x.hi))};
  }
  static MORTISE_INLINE I32x16 finish(I32x16 acc, I32x16 partial) {
    const __m256i one = _mm256_set1_epi16(1);
    return acc + I32x16{_mm256_madd_epi16(partial.lo, one), _mm256_madd_epi16(partial.hi, one)};
  }
};

#elif defined(MORTISE_ISA_NEON)

// Two products of at most 128 * 127 fit 16 bits: 32512. Has no state.
template <std::int32_t offset>
struct NeonDot {
  using Weights = I32x16;
  static constexpr std::int32_t kOffset = offset;
  static MORTISE_INLINE Weights weights(I32x16 raw) {
    // Unsigned minus 128 is the signed byte with the other highest bit. 4-bit weights fit signed bytes as they are.
    if constexpr (offset == 128) return raw ^ broadcast_i32(static_cast<std::int32_t>(0x80808080u));
    return raw;
  }
  static MORTISE_INLINE I32x16 accumulate(I32x16 partial, Weights w, I32x16 x) {
    return quarters<I32x16>(
        [](auto sum, auto a, auto b) {
          const int8x16_t a8 = vreinterpretq_s8_s32(a), b8 = vreinterpretq_s8_s32(b);
          const int16x8_t low = vmull_s8(vget_low_s8(a8), vget_low_s8(b8));
          return vpadalq_s16(sum, vpaddq_s16(low, vmull_high_s8(a8, b8)));
        },
        partial, w, x);
  }
  static MORTISE_INLINE I32x16 finish(I32x16 acc, I32x16 partial) { return acc + partial; }
};
template <>
struct IntDot<8> : NeonDot<128> {};
template <>
struct IntDot<4> : NeonDot<0> {};

#else

// Pairs of 16-bit products, as vpmaddwd computes them: compilers vectorise this form. x is a broadcast, so every lane
// has the same bytes. Has no state.
struct ScalarDot {
  using Weights = I32x16;
  static constexpr std::int32_t kOffset = 0;
  static MORTISE_INLINE Weights weights(I32x16 raw) { return raw; }
  static MORTISE_INLINE I32x16 accumulate(I32x16 partial, Weights w, I32x16 x) {
    std::uint8_t bytes[4 * kLanes];
    std::int8_t quad[4];
    std::memcpy(bytes, w.v, sizeof bytes);
    std::memcpy(quad, x.v, sizeof quad);
    return lanes<I32x16>([&](std::size_t i) {
      return partial.v[i] + bytes[4 * i] * quad[0] + bytes[4 * i + 1] * quad[1] + bytes[4 * i + 2] * quad[2] +
             bytes[4 * i + 3] * quad[3];
    });
  }
  static MORTISE_INLINE I32x16 finish(I32x16 acc, I32x16 partial) { return acc + partial; }
};
template <>
struct IntDot<8> : ScalarDot {};
template <>
struct IntDot<4> : ScalarDot {};

#endif

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
