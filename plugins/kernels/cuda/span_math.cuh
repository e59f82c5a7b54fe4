// plugins/kernels/cuda/span_math.cuh: the arithmetic of all span kernels except the tensor cores' (docs/numerics.md,
// "Attention on CUDA"). Every operation is explicit: the compiler fuses and reorders nothing. Tests run the same
// functions on the host.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace mortise::cuda {

#if defined(__CUDACC__)
#define MORTISE_BOTH __host__ __device__ __forceinline__
#else
#define MORTISE_BOTH inline
#endif

namespace span {

MORTISE_BOTH float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return std::fmaf(a, b, c);
#endif
}
MORTISE_BOTH float add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
MORTISE_BOTH float mul(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
MORTISE_BOTH std::uint32_t bits(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
#endif
}
MORTISE_BOTH float from_bits(std::uint32_t u) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(u);
#else
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
#endif
}

MORTISE_BOTH float infinity() {
  return from_bits(0x7f800000u);
}

// Returns 2^max(x, -126) for x <= 0. NaN counts as -126; checked_sum() handles the row that it came from. The
// polynomial is that of plugins/kernels/cpu/vec/math.hpp. x + 1.5 * 2^23 rounds to the nearest integer (ties to even)
// and leaves it in the low bits, which are then shifted into the exponent.
MORTISE_BOTH float exp2_floored(float x) {
  constexpr float kRound = 0x1.8p23f;
  x = fmaxf(x, -126.0f);
  const float t = add(x, kRound);
  const float f = add(x, -add(t, -kRound));
  float p = 0x1.41fbbcp-13f;
  p = fma(p, f, 0x1.5f3e54p-10f);
  p = fma(p, f, 0x1.3b2d4cp-7f);
  p = fma(p, f, 0x1.c6aee8p-5f);
  p = fma(p, f, 0x1.ebfbdcp-3f);
  p = fma(p, f, 0x1.62e43p-1f);
  p = fma(f, p, 1.0f);
  return from_bits(bits(p) + (bits(t) << 23));
}

// Returns the unnormalised probability of a score before it is rounded to bf16: 2^(t' - m), t' = s * c.
MORTISE_BOTH float probability(float score, float scale, float m) {
  return exp2_floored(add(mul(score, scale), -m));
}

#if defined(__CUDACC__)
// Turns scores into probabilities with the same operations as `probability`. The scores are independent, so their
// operations overlap.
template <int n>
__device__ __forceinline__ void to_probabilities(float (&x)[n], float scale, float m) {
  constexpr float kRound = 0x1.8p23f;
  constexpr float kTerms[6] = {0x1.5f3e54p-10f, 0x1.3b2d4cp-7f, 0x1.c6aee8p-5f, 0x1.ebfbdcp-3f, 0x1.62e43p-1f, 1.0f};
  float t[n], f[n], p[n];
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = mul(x[i], scale);
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = add(x[i], -m);
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = fmaxf(x[i], -126.0f);
#pragma unroll
  for (int i = 0; i < n; ++i) t[i] = add(x[i], kRound);
#pragma unroll
  for (int i = 0; i < n; ++i) f[i] = add(t[i], -kRound);
#pragma unroll
  for (int i = 0; i < n; ++i) f[i] = add(x[i], -f[i]);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = 0x1.41fbbcp-13f;
#pragma unroll
  for (int term = 0; term < 6; ++term) {
#pragma unroll
    for (int i = 0; i < n; ++i) p[i] = fma(p[i], f[i], kTerms[term]);
  }
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = from_bits(bits(p[i]) + (bits(t[i]) << 23));
}
#endif

// Returns the sum of a partial whose largest t' is m. It is NaN if there is a NaN or +infinity among the scores, or if
// all scores are -infinity. A row that sees no key of the span has m = -infinity too; its sum 0 stays.
MORTISE_BOTH float checked_sum(float sum, float m) {
  return m < infinity() && (m > -infinity() || sum == 0.0f) ? sum : from_bits(0x7fc00000u);
}

// Returns the larger number, or NaN if either is NaN.
MORTISE_BOTH float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("max.NaN.ftz.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a != a ? a : b != b ? b : a > b ? a : b;
#endif
}

// The factors that merge (m, sum, O) with the next partial (m2, sum2, O2): O = fma(O2, right, O * left), sum likewise.
// One of the two factors is 1. An empty partial is (-infinity, 0, 0) and changes nothing, on either side.
struct MergeFactors {
  float m, left, right;
};
MORTISE_BOTH MergeFactors merge_factors(float m, float m2) {
  const float largest = larger(m, m2);
  return {largest, exp2_floored(add(m, -largest)), exp2_floored(add(m2, -largest))};
}
MORTISE_BOTH float merged(float left, float right, const MergeFactors& w) {
  return fma(right, w.right, mul(left, w.left));
}

// Returns one element of out. sum is 0 for a row that sees nothing. Adding +0 makes a zero positive.
MORTISE_BOTH float quotient(float o, float sum) {
#if defined(__CUDA_ARCH__)
  return sum == 0.0f ? 0.0f : __fadd_rn(__fdiv_rn(o, sum), 0.0f);
#else
  return sum == 0.0f ? 0.0f : o / sum + 0.0f;
#endif
}

}  // namespace span
}  // namespace mortise::cuda
