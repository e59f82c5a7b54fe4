// plugins/kernels/cpu/vec/math.hpp: exp2, exp, log, log1p, tanh, erf and the activations built from them, sixteen lanes
// at a time. docs/numerics.md has the same formulas; the order of the operations is part of the specification. Denormal
// arguments count as zero and denormal results are zero. NaN gives NaN. Largest errors against long double, in units of
// the last place (math_test.cpp asserts bounds a little above):
//   exp2 0.95   exp 1.15   log 0.8   log1p 1.5   tanh 1.4   erf 1.1   sigmoid 2.3
// Source: coefficients from fit_math.py.
// Oracle: reference/math.hpp, bitwise (tests/plugins/kernels/cpu/vec/math_test.cpp).
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

constexpr float kInfinity = __builtin_inff();

// Horner's rule with fma: c[0] + c[1] x + ... + c[n-1] x^(n-1), from the highest power down. REQUIRES: |c[i]| >= 2^-60.
template <std::size_t n>
MORTISE_INLINE F32x16 polynomial(F32x16 x, const float (&c)[n]) {
  F32x16 r = broadcast(c[n - 1]);
  for (std::size_t i = n - 1; i-- > 0;) r = fma_normal(r, x, broadcast(c[i]));
  return r;
}

// 2^(n + f). REQUIRES: n is a whole number in -126 .. 128, f in [-1/2, 1/2], and the result is a finite normal number.
MORTISE_INLINE F32x16 exp2_of_parts(I32x16 n, F32x16 f) {
  constexpr float c[] = {0x1.62e43p-1f,  0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                         0x1.3b2d4cp-7f, 0x1.5f3e54p-10f, 0x1.41fbbcp-13f};
  const F32x16 p = fma_normal(f, polynomial(f, c), broadcast(1.0f));
  return from_bits(bits(p) + shift_left<23>(n));
}

// r, except for extreme exponents: 0 if `exponent` <= -126, infinity if >= 128, NaN if NaN.
MORTISE_INLINE F32x16 limit_exp2(F32x16 r, F32x16 exponent) {
  r = select(gt(exponent, broadcast(-126.0f)), r, zero());
  r = select(ge(exponent, broadcast(128.0f)), broadcast(kInfinity), r);
  return select(eq(exponent, exponent), r, exponent);
}

// 2^x. x <= -126 gives 0.
MORTISE_LARGE_INLINE F32x16 exp2(F32x16 x) {
  const I32x16 n = to_int(x);
  return limit_exp2(exp2_of_parts(n, x - to_float(n)), x);
}

constexpr float kLog2e = 0x1.715476p+0f, kLog2eLow = 0x1.4ae0c0p-26f;  // kLog2eLow = log2(e) - kLog2e

// The fraction x log2(e) - n.
MORTISE_INLINE F32x16 exp_fraction(F32x16 x, I32x16 n) {
  return fma(x, broadcast(kLog2eLow), fma(x, broadcast(kLog2e), neg(to_float(n))));
}

// e^x = 2^(x log2 e), the product in two parts. If x log2(e), rounded to f32, is <= -126 the result is 0, if >= 128
// infinity.
MORTISE_LARGE_INLINE F32x16 exp(F32x16 x) {
  const F32x16 t = x * broadcast(kLog2e);
  const I32x16 n = to_int(t);
  return limit_exp2(exp2_of_parts(n, exp_fraction(x, n)), t);
}

// exp for x <= 0 with the same bits in fewer operations. NaN gives 0.
MORTISE_LARGE_INLINE F32x16 exp_of_negative(F32x16 x) {
  const F32x16 t = x * broadcast(kLog2e);
  const I32x16 n = to_int(t);
  return select(gt(t, broadcast(-126.0f)), exp2_of_parts(n, exp_fraction(x, n)), zero());
}

// log(x). 0 gives -infinity, x < 0 gives NaN.
MORTISE_LARGE_INLINE F32x16 log(F32x16 x) {
  constexpr float c[] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,  -0x1.555c4ep-3f, 0x1.233768p-3f,
                         -0x1.fc2208p-4f, 0x1.e6f06cp-4f,  -0x1.de3c14p-4f, 0x1.1457a2p-4f};
  const F32x16 ln2_high = broadcast(0x1.63p-1f);  // 9 bits: e * ln2_high is exact
  const F32x16 ln2_low = broadcast(-0x1.bd0106p-13f);
  // x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2)
  const I32x16 exponent = shift_right_signed<23>(bits(x) - broadcast_i32(0x3f3504f3));
  const F32x16 e = to_float(exponent);
  const F32x16 f = from_bits(bits(x) - shift_left<23>(exponent)) - broadcast(1.0f);
  const F32x16 z = f * f;
  F32x16 r = (f * z) * polynomial(f, c);
  r = fma(e, ln2_low, r);
  r = fma(broadcast(-0.5f), z, r);
  r = fma(e, ln2_high, f + r);
  r = select(lt(x, broadcast(kInfinity)), r, x);
  r = select(eq(x, zero()), broadcast(-kInfinity), r);
  return select(lt(x, zero()), from_bits(broadcast_i32(0x7fc00000)), r);
}

// log(1 + x). -1 gives -infinity, x < -1 gives NaN.
MORTISE_LARGE_INLINE F32x16 log1p(F32x16 x) {
  const F32x16 u = x + broadcast(1.0f);
  const F32x16 lost = x - (u - broadcast(1.0f));  // the part of 1 + x that rounding to u lost; d log(u) = du / u
  F32x16 r = log(u) + lost / u;
  r = select(eq(u, zero()), broadcast(-kInfinity), r);
  return select(lt(x, broadcast(kInfinity)), r, x);
}

MORTISE_LARGE_INLINE F32x16 tanh(F32x16 x) {
  constexpr float c[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c5ap-5f, 0x1.52269ap-6f, -0x1.75e1cap-8f};
  const F32x16 a = abs(x);
  const F32x16 z = x * x;
  const F32x16 small = fma(z * x, polynomial(z, c), x);
  const F32x16 large = broadcast(1.0f) - broadcast(2.0f) / (exp(a + a) + broadcast(1.0f));
  return select(lt(a, broadcast(0.625f)), small, copysign(large, x));
}

MORTISE_LARGE_INLINE F32x16 erf(F32x16 x) {
  constexpr float c[] = {0x1.06eba8p-3f, -0x1.812742p-2f,  0x1.ce2df4p-4f, -0x1.b80cb4p-6f,
                         0x1.54b5e4p-8f, -0x1.a99ef4p-11f, 0x1.5ac328p-14f};
  constexpr float d[] = {-0x1.20efc4p+0f, -0x1.452d3ep-1f, -0x1.b36b78p-4f, 0x1.8641a6p-6f,
                         -0x1.e0f674p-9f, 0x1.596c4ap-12f, -0x1.8ef9aep-17f};
  const F32x16 a = abs(x);
  const F32x16 small = fma(x, polynomial(x * x, c), x);
  const F32x16 t = min(a, broadcast(4.0f));  // for larger a the result rounds to 1
  const F32x16 large = broadcast(1.0f) - exp(t * polynomial(t, d));
  const F32x16 r = select(lt(a, broadcast(0.9375f)), small, copysign(large, x));
  return select(eq(x, x), r, x);
}

// 1 / (1 + e^-x)
MORTISE_INLINE F32x16 sigmoid(F32x16 x) {
  return broadcast(1.0f) / (broadcast(1.0f) + exp(neg(x)));
}

// x / (1 + e^-x)
MORTISE_INLINE F32x16 silu(F32x16 x) {
  const F32x16 divisor = broadcast(1.0f) + exp(neg(x));
#if defined(MORTISE_ISA_AVX512)
  // The quotient from the rounded reciprocal (Markstein, IBM J. Res. Dev. 34(1), 1990) has the same bits and takes half
  // the time. Exceptions divide: a divisor whose mantissa is all ones, an overflow in a step, and NaN. math_test.cpp
  // tries every x.
  const Mask16 simple = ge(x, broadcast(-64.0f)) & lt(x, broadcast(0x1p100f)) & !eq(divisor, broadcast(0x1.fffffep0f));
  if (mask_bits(simple) == 0xffff) {
    F32x16 r = approximate_reciprocal(divisor);
    r = fma(r, fma(neg(divisor), r, broadcast(1.0f)), r);
    r = fma(r, fma(neg(divisor), r, broadcast(1.0f)), r);
    const F32x16 q = x * r;
    const F32x16 quotient = fma(fma(neg(divisor), q, x), r, q);
    return from_bits(bits(quotient) | (bits(x) & broadcast_i32(INT32_MIN)));  // -0 / 2 is -0
  }
#endif
  return x / divisor;
}

// silu(x) rounded to bf16, for x that is a bf16. A shorter exponential and a reciprocal of one step give the same bf16
// for all 65,536 arguments (elementwise_test.cpp tries all), although the values before rounding differ from silu.
MORTISE_LARGE_INLINE F32x16 rounded_silu_of_bf16(F32x16 x) {
#if defined(MORTISE_ISA_AVX512)
  if (mask_bits(lt(abs(x), broadcast(64.0f))) == 0xffff) {
    constexpr float c[] = {0x1.62e426p-1f, 0x1.ebf9b6p-3f, 0x1.c6baaap-5f, 0x1.3cec16p-7f, 0x1.5a8502p-10f};
    const F32x16 minus_log2e = broadcast(-0x1.715476p+0f);
    const I32x16 n = to_int(x * minus_log2e);
    const F32x16 f = fma_minus(x, minus_log2e, to_float(n));
    const F32x16 p = fma(f, polynomial(f, c), broadcast(1.0f));
    const F32x16 divisor = broadcast(1.0f) + from_bits(bits(p) + shift_left<23>(n));
    F32x16 r = approximate_reciprocal(divisor);
    r = fma(r, one_minus(divisor, r), r);
    return round_bf16_number(x * r);
  }
#endif
  return round_bf16(silu(x));
}

MORTISE_INLINE F32x16 relu(F32x16 x) {
  return select(le(x, zero()), zero(), x);
}

// x / 2 (1 + erf(x / sqrt(2)))
MORTISE_INLINE F32x16 gelu(F32x16 x) {
  const F32x16 half = x * broadcast(0.5f);
  return half * (broadcast(1.0f) + erf(x * broadcast(0x1.6a09e6p-1f)));
}

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
MORTISE_INLINE F32x16 gelu_tanh(F32x16 x) {
  const F32x16 half = x * broadcast(0.5f);
  const F32x16 cube = (x * x) * x;
  const F32x16 inner = broadcast(0x1.988454p-1f) * fma(broadcast(0x1.6e4e26p-5f), cube, x);
  return half * (broadcast(1.0f) + tanh(inner));
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
