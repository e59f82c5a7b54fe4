// plugins/kernels/cuda/math.cuh: exp2, exp, log, log1p, tanh, erf and the activations of docs/numerics.md for one
// number: the operations of plugins/kernels/cpu/vec/math.hpp in the same order, so the same bits. Every operation is a
// named intrinsic (__fadd_rn ..), which the compiler may neither fuse nor reorder. With -ftz=true denormal operands and
// results are zero. silu_of_moderate has other operations and the same bits.
// Oracle: kernels/cpu/reference/math.hpp, bitwise (tests/plugins/kernels/cuda/math_test.cpp).
#pragma once

#include <cstdint>

#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

__device__ __forceinline__ float infinity() {
  return __uint_as_float(0x7f800000u);
}
__device__ __forceinline__ float quiet_nan() {
  return __uint_as_float(0x7fc00000u);
}

// Horner's rule with fma, from the highest power down.
template <int n>
__device__ __forceinline__ float polynomial(float x, const float (&c)[n]) {
  float r = c[n - 1];
#pragma unroll
  for (int i = n - 2; i >= 0; --i) r = __fmaf_rn(r, x, c[i]);
  return r;
}

// 2^n p.
// REQUIRES: the exponent of p plus n is that of a normal number.
__device__ __forceinline__ float times_power_of_two(float p, int n) {
  return __uint_as_float(__float_as_uint(p) + (static_cast<std::uint32_t>(n) << 23));
}

// 2^(n + f)
__device__ __forceinline__ float exp2_of_parts(int n, float f) {
  constexpr float c[] = {0x1.62e43p-1f,  0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                         0x1.3b2d4cp-7f, 0x1.5f3e54p-10f, 0x1.41fbbcp-13f};
  return times_power_of_two(__fmaf_rn(f, polynomial(f, c), 1.0f), n);
}

// 2^x; x <= -126 gives 0, x >= 128 infinity.
__device__ __forceinline__ float exp2(float x) {
  const int n = __float2int_rn(x);
  float r = exp2_of_parts(n, __fadd_rn(x, -__int2float_rn(n)));
  r = x > -126.0f ? r : 0.0f;
  r = x >= 128.0f ? infinity() : r;
  return x == x ? r : quiet_nan();
}

// e^x for |x| < 87, with t = x kLog2e: e^x = 2^(x log2 e), the product in two parts.
constexpr float kLog2e = 0x1.715476p+0f;
__device__ __forceinline__ float exp_of_moderate(float x, float t) {
  constexpr float kLog2eLow = 0x1.4ae0c0p-26f;
  // Adding 1.5 * 2^23 rounds t to an integer, which is then in the lowest bits; conversions would take a unit that is
  // four times slower.
  const float shifted = __fadd_rn(t, 0x1.8p+23f);
  const float f = __fmaf_rn(x, kLog2eLow, __fmaf_rn(x, kLog2e, -__fadd_rn(shifted, -0x1.8p+23f)));
  return exp2_of_parts(static_cast<int>(__float_as_uint(shifted)), f);
}

__device__ __forceinline__ float exp(float x) {
  const float t = __fmul_rn(x, kLog2e);
  float r = exp_of_moderate(x, t);  // replaced where |t| is too large
  r = t > -126.0f ? r : 0.0f;
  r = t >= 128.0f ? infinity() : r;
  return t == t ? r : quiet_nan();
}

// 0 gives -infinity, x < 0 NaN.
__device__ __forceinline__ float log(float x) {
  constexpr float c[] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,  -0x1.555c4ep-3f, 0x1.233768p-3f,
                         -0x1.fc2208p-4f, 0x1.e6f06cp-4f,  -0x1.de3c14p-4f, 0x1.1457a2p-4f};
  constexpr float kLn2High = 0x1.63p-1f, kLn2Low = -0x1.bd0106p-13f;
  // x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2)
  const int exponent = static_cast<std::int32_t>(__float_as_uint(x) - 0x3f3504f3u) >> 23;
  const float e = __int2float_rn(exponent);
  const float f = __fadd_rn(times_power_of_two(x, -exponent), -1.0f);
  const float z = __fmul_rn(f, f);
  float r = __fmul_rn(__fmul_rn(f, z), polynomial(f, c));
  r = __fmaf_rn(e, kLn2Low, r);
  r = __fmaf_rn(-0.5f, z, r);
  r = __fmaf_rn(e, kLn2High, __fadd_rn(f, r));
  r = x < infinity() ? r : x;
  r = x == 0.0f ? -infinity() : r;
  return x < 0.0f ? quiet_nan() : r;
}

// -1 gives -infinity, x < -1 NaN.
__device__ __forceinline__ float log1p(float x) {
  const float u = __fadd_rn(x, 1.0f);
  // The part of 1 + x that rounding to u lost; d log(u) = du / u.
  const float lost = __fadd_rn(x, -__fadd_rn(u, -1.0f));
  float r = __fadd_rn(log(u), __fdiv_rn(lost, u));
  r = u == 0.0f ? -infinity() : r;
  return x < infinity() ? r : x;
}

__device__ __forceinline__ float magnitude(float x) {
  return __uint_as_float(__float_as_uint(x) & 0x7fffffffu);
}
__device__ __forceinline__ float with_sign_of(float a, float x) {
  return __uint_as_float((__float_as_uint(a) & 0x7fffffffu) | (__float_as_uint(x) & 0x80000000u));
}
__device__ __forceinline__ float negative(float x) {
  return __uint_as_float(__float_as_uint(x) ^ 0x80000000u);
}

__device__ __forceinline__ float tanh(float x) {
  constexpr float c[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c5ap-5f, 0x1.52269ap-6f, -0x1.75e1cap-8f};
  const float a = magnitude(x);
  if (a < 0.625f) {
    const float z = __fmul_rn(x, x);
    return __fmaf_rn(__fmul_rn(z, x), polynomial(z, c), x);
  }
  const float large = __fadd_rn(1.0f, -__fdiv_rn(2.0f, __fadd_rn(exp(__fadd_rn(a, a)), 1.0f)));
  return with_sign_of(large, x);
}

__device__ __forceinline__ float erf(float x) {
  constexpr float c[] = {0x1.06eba8p-3f, -0x1.812742p-2f,  0x1.ce2df4p-4f, -0x1.b80cb4p-6f,
                         0x1.54b5e4p-8f, -0x1.a99ef4p-11f, 0x1.5ac328p-14f};
  constexpr float d[] = {-0x1.20efc4p+0f, -0x1.452d3ep-1f, -0x1.b36b78p-4f, 0x1.8641a6p-6f,
                         -0x1.e0f674p-9f, 0x1.596c4ap-12f, -0x1.8ef9aep-17f};
  if (x != x) return quiet_nan();
  const float a = magnitude(x);
  if (a < 0.9375f) return __fmaf_rn(x, polynomial(__fmul_rn(x, x), c), x);
  const float t = a < 4.0f ? a : 4.0f;  // for larger a the result rounds to 1
  return with_sign_of(__fadd_rn(1.0f, -exp(__fmul_rn(t, polynomial(t, d)))), x);
}

__device__ __forceinline__ float sigmoid(float x) {
  return __fdiv_rn(1.0f, __fadd_rn(1.0f, exp(negative(x))));
}
__device__ __forceinline__ float silu(float x) {
  return __fdiv_rn(x, __fadd_rn(1.0f, exp(negative(x))));
}
// The bits of silu for |x| < 80, in three fifths of the instructions: nothing overflows, and the quotient is computed
// as
// __fdiv_rn computes it for such numbers, without its branch. Its remainder is never denormal: where x is tiny the
// divisor is 2.
__device__ __forceinline__ float silu_of_moderate(float x) {
  const float minus = negative(x);
  const float divisor = __fadd_rn(1.0f, exp_of_moderate(minus, __fmul_rn(minus, kLog2e)));
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(divisor));
  inverse = __fmaf_rn(inverse, __fmaf_rn(-divisor, inverse, 1.0f), inverse);
  const float quotient = __fmul_rn(x, inverse);
  const float result = __fmaf_rn(inverse, __fmaf_rn(-divisor, quotient, x), quotient);
  return with_sign_of(result, x);  // which the sum loses where x is -0
}
__device__ __forceinline__ float relu(float x) {
  return __fadd_rn(x <= 0.0f ? 0.0f : x, 0.0f);  // a maximum keeps denormals; the sum does not
}
__device__ __forceinline__ float gelu(float x) {
  return __fmul_rn(__fmul_rn(x, 0.5f), __fadd_rn(1.0f, erf(__fmul_rn(x, 0x1.6a09e6p-1f))));
}
__device__ __forceinline__ float gelu_tanh(float x) {
  const float cube = __fmul_rn(__fmul_rn(x, x), x);
  const float inner = __fmul_rn(0x1.988454p-1f, __fmaf_rn(0x1.6e4e26p-5f, cube, x));
  return __fmul_rn(__fmul_rn(x, 0.5f), __fadd_rn(1.0f, tanh(inner)));
}

__device__ __forceinline__ float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::kSilu:
      return silu(x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kRelu:
      break;
  }
  return relu(x);
}

}  // namespace mortise::cuda
