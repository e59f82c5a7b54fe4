// plugins/kernels/cpu/vec/neon.hpp: the AArch64 backend of vec.hpp: four registers per vector, lanes 0-3 in q0.
//
// Under DenormalsOff AArch64 reads denormals as zeros and flushes results below 2^-126. But it flushes before rounding:
// an exact result in [2^-126 - 2^-151, 2^-126), which rounds to 2^-126, becomes zero. Only products and FMAs can be
// there (soft_float.hpp). So * and fma look for zeros among their results, which are rare, and compute such lanes in
// software if their operands allow it.
//
// Loops of many FMAs use fma_flushed instead, which does not look. The processor notes in FPSR that it flushed a
// result: clear_flushed() before such a loop, and has_flushed() after it, which is rare, too. Then the loop's results
// are thrown away and computed with fma.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/vec/soft_float.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

struct F32x16 {
  float32x4_t q0, q1, q2, q3;
};
struct I32x16 {
  int32x4_t q0, q1, q2, q3;
};
struct Mask16 {
  uint32x4_t q0, q1, q2, q3;  // each lane is all ones or all zeros
};

// Applies `f` to the quarters of the vectors.
template <class To, class F, class... From>
MORTISE_INLINE To quarters(F f, From... v) {
  return {f(v.q0...), f(v.q1...), f(v.q2...), f(v.q3...)};
}

MORTISE_INLINE int32x4_t as_int(float32x4_t a) {
  return vreinterpretq_s32_f32(a);
}
MORTISE_INLINE float32x4_t as_float(int32x4_t a) {
  return vreinterpretq_f32_s32(a);
}
MORTISE_INLINE uint32x4_t as_unsigned(int32x4_t a) {
  return vreinterpretq_u32_s32(a);
}
MORTISE_INLINE int32x4_t as_signed(uint32x4_t a) {
  return vreinterpretq_s32_u32(a);
}

MORTISE_INLINE Mask16 first_lanes(std::size_t n) {
  const uint32x4_t count = vdupq_n_u32(static_cast<std::uint32_t>(n)), four = vdupq_n_u32(4);
  const uint32x4_t i0 = {0, 1, 2, 3}, i1 = vaddq_u32(i0, four), i2 = vaddq_u32(i1, four), i3 = vaddq_u32(i2, four);
  return {vcltq_u32(i0, count), vcltq_u32(i1, count), vcltq_u32(i2, count), vcltq_u32(i3, count)};
}
MORTISE_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return quarters<Mask16>([](auto x, auto y) { return vandq_u32(x, y); }, a, b);
}
MORTISE_INLINE Mask16 operator|(Mask16 a, Mask16 b) {
  return quarters<Mask16>([](auto x, auto y) { return vorrq_u32(x, y); }, a, b);
}
MORTISE_INLINE Mask16 operator!(Mask16 a) {
  return quarters<Mask16>([](auto x) { return vmvnq_u32(x); }, a);
}
MORTISE_INLINE std::uint32_t mask_bits(Mask16 a) {
  const uint16x8_t low = vcombine_u16(vmovn_u32(a.q0), vmovn_u32(a.q1));
  const uint16x8_t high = vcombine_u16(vmovn_u32(a.q2), vmovn_u32(a.q3));
  const uint8x8_t bit = {1, 2, 4, 8, 16, 32, 64, 128};
  const std::uint32_t low_bits = vaddv_u8(vand_u8(vmovn_u16(low), bit));
  return low_bits | static_cast<std::uint32_t>(vaddv_u8(vand_u8(vmovn_u16(high), bit))) << 8;
}
MORTISE_INLINE bool any(Mask16 a) {
  return vmaxvq_u32(vorrq_u32(vorrq_u32(a.q0, a.q1), vorrq_u32(a.q2, a.q3))) != 0;
}

MORTISE_INLINE F32x16 load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
MORTISE_INLINE void store(float* p, F32x16 a) {
  vst1q_f32(p, a.q0);
  vst1q_f32(p + 4, a.q1);
  vst1q_f32(p + 8, a.q2);
  vst1q_f32(p + 12, a.q3);
}
// There are no masked loads and stores, so tails are copied.
MORTISE_INLINE F32x16 load_tail(const float* p, std::size_t n) {
  float copy[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) copy[i] = p[i];
  return load(copy);
}
MORTISE_INLINE void store_tail(float* p, F32x16 a, std::size_t n) {
  float copy[kLanes];
  store(copy, a);
  for (std::size_t i = 0; i < n; ++i) p[i] = copy[i];
}
MORTISE_INLINE F32x16 broadcast(float x) {
  return {vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)};
}

MORTISE_INLINE Mask16 lt(F32x16 a, F32x16 b) {
  return quarters<Mask16>([](auto x, auto y) { return vcltq_f32(x, y); }, a, b);
}
MORTISE_INLINE Mask16 le(F32x16 a, F32x16 b) {
  return quarters<Mask16>([](auto x, auto y) { return vcleq_f32(x, y); }, a, b);
}
MORTISE_INLINE Mask16 gt(F32x16 a, F32x16 b) {
  return lt(b, a);
}
MORTISE_INLINE Mask16 ge(F32x16 a, F32x16 b) {
  return le(b, a);
}
MORTISE_INLINE Mask16 eq(F32x16 a, F32x16 b) {
  return quarters<Mask16>([](auto x, auto y) { return vceqq_f32(x, y); }, a, b);
}
MORTISE_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return quarters<F32x16>([](auto mask, auto x, auto y) { return vbslq_f32(mask, x, y); }, m, a, b);
}

// Whether a lane is a zero of either sign.
MORTISE_INLINE bool has_zero(F32x16 a) {
  const auto magnitude = [](float32x4_t x) { return vshlq_n_u32(vreinterpretq_u32_f32(x), 1); };
  return vminvq_u32(
             vminq_u32(vminq_u32(magnitude(a.q0), magnitude(a.q1)), vminq_u32(magnitude(a.q2), magnitude(a.q3)))) == 0;
}
// Lanes in which a product is not zero but the result is: those that the processor may have flushed.
MORTISE_INLINE Mask16 perhaps_flushed(F32x16 a, F32x16 b, F32x16 result) {
  const F32x16 nothing = broadcast(0.0f);
  return eq(result, nothing) & !(eq(a, nothing) | eq(b, nothing));
}
// `result`, the product of a and b or their FMA with c, with the lanes right that the processor may have flushed.
template <class... Addend>
[[maybe_unused, gnu::noinline, gnu::cold]] static F32x16 recomputed(F32x16 result, F32x16 a, F32x16 b, Addend... c) {
  const std::uint32_t wrong = mask_bits(perhaps_flushed(a, b, result));
  if (wrong == 0) return result;
  float r[kLanes], x[kLanes], y[kLanes], z[kLanes] = {};
  store(r, result), store(x, a), store(y, b);
  (store(z, c), ...);
  for (std::size_t i = 0; i < kLanes; ++i) {
    if ((wrong >> i & 1u) != 0) r[i] = sizeof...(c) == 0 ? soft_product(x[i], y[i]) : soft_fma(x[i], y[i], z[i]);
  }
  return load(r);
}

MORTISE_INLINE void clear_flushed() {
  asm volatile("msr fpsr, xzr" ::: "memory");
}
// Takes the memory of the results: the compiler must have stored, and so computed, them before it asks.
MORTISE_INLINE bool has_flushed(const float* results) {
  std::uint64_t fpsr;
  asm volatile("mrs %0, fpsr" : "=r"(fpsr) : "r"(results) : "memory");
  return (fpsr & 8) != 0;  // UFC, which a flushed result sets and a flushed operand does not
}

MORTISE_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return quarters<F32x16>([](auto x, auto y) { return vaddq_f32(x, y); }, a, b);
}
MORTISE_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return quarters<F32x16>([](auto x, auto y) { return vsubq_f32(x, y); }, a, b);
}
MORTISE_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  const F32x16 r = quarters<F32x16>([](auto x, auto y) { return vmulq_f32(x, y); }, a, b);
  return __builtin_expect(has_zero(r), false) ? recomputed(r, a, b) : r;
}
MORTISE_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return quarters<F32x16>([](auto x, auto y) { return vdivq_f32(x, y); }, a, b);
}
MORTISE_INLINE F32x16 fma_flushed(F32x16 a, F32x16 b, F32x16 c) {
  return quarters<F32x16>([](auto x, auto y, auto z) { return vfmaq_f32(z, x, y); }, a, b, c);
}
MORTISE_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  const F32x16 r = fma_flushed(a, b, c);
  return __builtin_expect(has_zero(r), false) ? recomputed(r, a, b, c) : r;
}
MORTISE_INLINE F32x16 fma_exact_product(F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}
MORTISE_INLINE F32x16 fma_normal(F32x16 a, F32x16 b, F32x16 c) {
  return fma_flushed(a, b, c);
}
MORTISE_INLINE F32x16 sqrt(F32x16 a) {
  return quarters<F32x16>([](auto x) { return vsqrtq_f32(x); }, a);
}
// FMIN and FMAX differ in NaN and zeros of two signs, but FMAX makes a zero of a denormal, as arithmetic does. (A
// compiler knows that a product with 1 is its other factor.)
MORTISE_INLINE float32x4_t flushed_quarter(float32x4_t a) {
  return vmaxq_f32(a, a);
}
MORTISE_INLINE float32x4_t min_quarter(float32x4_t a, float32x4_t b) {
  return flushed_quarter(vbslq_f32(vcltq_f32(a, b), a, b));
}
MORTISE_INLINE float32x4_t max_quarter(float32x4_t a, float32x4_t b) {
  return flushed_quarter(vbslq_f32(vcgtq_f32(a, b), a, b));
}
MORTISE_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return quarters<F32x16>([](auto x, auto y) { return min_quarter(x, y); }, a, b);
}
MORTISE_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return quarters<F32x16>([](auto x, auto y) { return max_quarter(x, y); }, a, b);
}

MORTISE_INLINE I32x16 bits(F32x16 a) {
  return quarters<I32x16>([](auto x) { return as_int(x); }, a);
}
MORTISE_INLINE F32x16 from_bits(I32x16 a) {
  return quarters<F32x16>([](auto x) { return as_float(x); }, a);
}

MORTISE_INLINE I32x16 load_i32(const std::int32_t* p) {
  return {vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)};
}
MORTISE_INLINE void store(std::int32_t* p, I32x16 a) {
  vst1q_s32(p, a.q0);
  vst1q_s32(p + 4, a.q1);
  vst1q_s32(p + 8, a.q2);
  vst1q_s32(p + 12, a.q3);
}
MORTISE_INLINE I32x16 load_i32_tail(const std::int32_t* p, std::size_t n) {
  std::int32_t copy[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) copy[i] = p[i];
  return load_i32(copy);
}
MORTISE_INLINE void store_tail(std::int32_t* p, I32x16 a, std::size_t n) {
  std::int32_t copy[kLanes];
  store(copy, a);
  for (std::size_t i = 0; i < n; ++i) p[i] = copy[i];
}
MORTISE_INLINE I32x16 broadcast_i32(std::int32_t x) {
  return {vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)};
}
MORTISE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto x, auto y) { return vaddq_s32(x, y); }, a, b);
}
MORTISE_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto x, auto y) { return vsubq_s32(x, y); }, a, b);
}
MORTISE_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto x, auto y) { return vandq_s32(x, y); }, a, b);
}
MORTISE_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto x, auto y) { return vorrq_s32(x, y); }, a, b);
}
MORTISE_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto x, auto y) { return veorq_s32(x, y); }, a, b);
}
MORTISE_INLINE I32x16 mul_lo(I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto x, auto y) { return vmulq_s32(x, y); }, a, b);
}
// Neighbouring products are one lane's; vpaddq adds them.
MORTISE_INLINE I32x16 add_products_i16(I32x16 sum, I32x16 a, I32x16 b) {
  return quarters<I32x16>(
      [](auto s, auto x, auto y) {
        const int16x8_t x16 = vreinterpretq_s16_s32(x), y16 = vreinterpretq_s16_s32(y);
        const int32x4_t low = vmull_s16(vget_low_s16(x16), vget_low_s16(y16));
        return vaddq_s32(s, vpaddq_s32(low, vmull_high_s16(x16, y16)));
      },
      sum, a, b);
}
MORTISE_INLINE I32x16 max(I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto x, auto y) { return vmaxq_s32(x, y); }, a, b);
}
MORTISE_INLINE I32x16 mul_hi_u32(I32x16 a, I32x16 b) {
  return quarters<I32x16>(
      [](auto x, auto y) {
        const uint32x4_t x32 = as_unsigned(x), y32 = as_unsigned(y);
        const uint64x2_t low = vmull_u32(vget_low_u32(x32), vget_low_u32(y32));
        const uint64x2_t high = vmull_high_u32(x32, y32);
        return as_signed(vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)));
      },
      a, b);
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_left(I32x16 a) {
  return quarters<I32x16>([](auto x) { return vshlq_n_s32(x, n); }, a);
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right(I32x16 a) {
  if constexpr (n == 0)
    return a;  // the instruction shifts by 1 to 32
  else
    return quarters<I32x16>([](auto x) { return as_signed(vshrq_n_u32(as_unsigned(x), n)); }, a);
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right_signed(I32x16 a) {
  return quarters<I32x16>([](auto x) { return vshrq_n_s32(x, n); }, a);
}
MORTISE_INLINE Mask16 eq(I32x16 a, I32x16 b) {
  return quarters<Mask16>([](auto x, auto y) { return vceqq_s32(x, y); }, a, b);
}
MORTISE_INLINE Mask16 gt(I32x16 a, I32x16 b) {
  return quarters<Mask16>([](auto x, auto y) { return vcgtq_s32(x, y); }, a, b);
}
MORTISE_INLINE I32x16 select(Mask16 m, I32x16 a, I32x16 b) {
  return quarters<I32x16>([](auto mask, auto x, auto y) { return vbslq_s32(mask, x, y); }, m, a, b);
}
MORTISE_INLINE F32x16 to_float(I32x16 a) {
  return quarters<F32x16>([](auto x) { return vcvtq_f32_s32(x); }, a);
}
// The instruction gives 0 for NaN, and INT32_MAX for what is too large.
MORTISE_INLINE I32x16 to_int(F32x16 a) {
  return quarters<I32x16>(
      [](auto x) { return vbslq_s32(vcltq_f32(x, vdupq_n_f32(0x1p31f)), vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN)); },
      a);
}
MORTISE_INLINE I32x16 load_u8(const std::uint8_t* p) {
  const uint8x16_t bytes = vld1q_u8(p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
  return {as_signed(vmovl_u16(vget_low_u16(low))), as_signed(vmovl_high_u16(low)),
          as_signed(vmovl_u16(vget_low_u16(high))), as_signed(vmovl_high_u16(high))};
}
MORTISE_INLINE I32x16 load_i8(const std::int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}
MORTISE_INLINE int8x16_t narrow_i8(I32x16 a) {
  const int16x8_t low = vcombine_s16(vmovn_s32(a.q0), vmovn_s32(a.q1));
  const int16x8_t high = vcombine_s16(vmovn_s32(a.q2), vmovn_s32(a.q3));
  return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}
MORTISE_INLINE void store_i8(std::int8_t* p, I32x16 a) {
  vst1q_s8(p, narrow_i8(a));
}
MORTISE_INLINE void store_i8_even_odd(std::int8_t* p, I32x16 even, I32x16 odd) {
  vst2q_s8(p, {{narrow_i8(even), narrow_i8(odd)}});
}

MORTISE_INLINE F32x16 load_bf16(const Bf16* p) {
  const uint16x8_t low = vld1q_u16(p), high = vld1q_u16(p + 8);
  const auto widen = [](uint16x4_t halves) { return vreinterpretq_f32_u32(vshll_n_u16(halves, 16)); };
  return {widen(vget_low_u16(low)), widen(vget_high_u16(low)), widen(vget_low_u16(high)), widen(vget_high_u16(high))};
}
MORTISE_INLINE F32x16 load_bf16_tail(const Bf16* p, std::size_t n) {
  Bf16 copy[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) copy[i] = p[i];
  return load_bf16(copy);
}
// The conversion keeps denormals of f16: FPCR's FZ16 is off.
MORTISE_INLINE F32x16 load_f16(const F16* p) {
  const auto widen = [](const F16* q) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(q))); };
  return {widen(p), widen(p + 4), widen(p + 8), widen(p + 12)};
}
MORTISE_INLINE uint16x4_t narrow_bf16_quarter(float32x4_t a) {
  const uint32x4_t u = vreinterpretq_u32_f32(a);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd);
  return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, vdupq_n_u32(0x7fc00000)), 16);
}
MORTISE_INLINE void store_bf16(Bf16* p, F32x16 a) {
  vst1q_u16(p, vcombine_u16(narrow_bf16_quarter(a.q0), narrow_bf16_quarter(a.q1)));
  vst1q_u16(p + 8, vcombine_u16(narrow_bf16_quarter(a.q2), narrow_bf16_quarter(a.q3)));
}
MORTISE_INLINE void store_bf16_tail(Bf16* p, F32x16 a, std::size_t n) {
  Bf16 copy[kLanes];
  store_bf16(copy, a);
  for (std::size_t i = 0; i < n; ++i) p[i] = copy[i];
}

MORTISE_INLINE float sum(F32x16 a) {
  const float32x4_t x4 = vaddq_f32(vaddq_f32(a.q0, a.q2), vaddq_f32(a.q1, a.q3));
  const float32x2_t x2 = vadd_f32(vget_low_f32(x4), vget_high_f32(x4));
  return vget_lane_f32(x2, 0) + vget_lane_f32(x2, 1);
}
MORTISE_INLINE float max(F32x16 a) {
  const float32x4_t x4 = max_quarter(max_quarter(a.q0, a.q2), max_quarter(a.q1, a.q3));
  const float32x4_t x2 = max_quarter(x4, vextq_f32(x4, x4, 2));
  return vgetq_lane_f32(max_quarter(x2, vextq_f32(x2, x2, 1)), 0);
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
