// plugins/kernels/cuda/span_math.cuh: the arithmetic of all span kernels except the tensor cores' (docs/numerics.md,
// "Attention on CUDA"). Every operation is explicit: the compiler fuses and reorders nothing. Tests run the same
// functions on the host, with denormals off.
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

// Returns a b + c, but 0 for less and for NaN, and 1 for more.
MORTISE_BOTH float saturated_fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("fma.rn.ftz.sat.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
  return r;
#else
  const float x = std::fmaf(a, b, c);
  return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f;
#endif
}

// Weights are relative to 2^m, where m is an integer, the largest t' = s * c of the span rounded up. So the factors
// that merge spans are powers of two. NaN if there is a NaN among the scores.
MORTISE_BOTH float weight_exponent(float largest_score, float scale) {
  return ceilf(mul(largest_score, scale));
}

// Scores to weights: 2^max(t' - m, -64). A score becomes y = (t' - m) / 64 + 1, limited to 0 .. 1 by the same
// instruction, which is a * score + b. NaN counts as 0; checked_sum() handles the row that it came from.
struct WeightLine {
  float a, b;
};
constexpr float kWeightRange = 64.0f;
MORTISE_BOTH WeightLine weight_line(float scale, float m) {
  return {mul(scale, 1.0f / kWeightRange), fma(m, -1.0f / kWeightRange, 1.0f)};
}

// 2^f for f from -1/2 to 1/2 is 1 + f (kTerm1 + f (kTerm2 + f kTerm3)): the smallest relative error that three
// terms allow, 1.02e-4, a nineteenth of what rounding to bf16 loses. Adding kRound rounds 64 y to an integer (ties to
// even) and leaves it, less 64, in the low bits, which are then shifted into the exponent.
constexpr float kRound = 0x1.8p23f - kWeightRange;
constexpr float kTerm1 = 0x1.62f5fap-1f, kTerm2 = 0x1.f00c4cp-3f, kTerm3 = 0x1.c2a21cp-5f;

// Returns the weight of a score before it is rounded to bf16.
MORTISE_BOTH float probability(float score, WeightLine line) {
  const float y = saturated_fma(score, line.a, line.b);
  const float t = fma(y, kWeightRange, kRound);
  const float f = fma(y, kWeightRange, -add(t, -kRound));
  float p = fma(f, kTerm3, kTerm2);
  p = fma(p, f, kTerm1);
  p = fma(p, f, 1.0f);
  return from_bits(bits(p) + (bits(t) << 23));
}

#if defined(__CUDACC__)
// Turns scores into weights with the same operations as `probability`. The scores are independent, so their operations
// overlap.
template <int n>
__device__ __forceinline__ void to_probabilities(float (&x)[n], WeightLine line) {
  float t[n], f[n], p[n];
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = saturated_fma(x[i], line.a, line.b);
#pragma unroll
  for (int i = 0; i < n; ++i) t[i] = fma(x[i], kWeightRange, kRound);
#pragma unroll
  for (int i = 0; i < n; ++i) f[i] = add(t[i], -kRound);
#pragma unroll
  for (int i = 0; i < n; ++i) f[i] = fma(x[i], kWeightRange, -f[i]);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(f[i], kTerm3, kTerm2);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], f[i], kTerm1);
#pragma unroll
  for (int i = 0; i < n; ++i) p[i] = fma(p[i], f[i], 1.0f);
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = from_bits(bits(p[i]) + (bits(t[i]) << 23));
}
#endif

// Returns 2^max(x, -126) for an integer x <= 0. NaN counts as -126.
MORTISE_BOTH float power_of_two(float x) {
  return from_bits((bits(add(fmaxf(x, -126.0f), 0x1.8p23f)) << 23) + bits(1.0f));
}

// Returns the sum of a partial with weights relative to 2^m. It is NaN if there is a NaN or +infinity among the scores,
// if all scores are -infinity, or if |m| is 2^30 or more, where f32 no longer tells scores apart that differ by
// kWeightRange. A row that sees no key of the span has m = -infinity too; its sum 0 stays.
MORTISE_BOTH float checked_sum(float sum, float m) {
  constexpr float kLimit = 0x1p30f;
  return m < kLimit && (m > -kLimit || sum == 0.0f) ? sum : from_bits(0x7fc00000u);
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
// Both are powers of two. One of them is 1, unless both partials are empty or one is NaN. An empty partial is
// (-infinity, 0, 0) and changes nothing, on either side.
struct MergeFactors {
  float m, left, right;
};
MORTISE_BOTH MergeFactors merge_factors(float m, float m2) {
  const float largest = larger(m, m2);
  return {largest, power_of_two(add(m, -largest)), power_of_two(add(m2, -largest))};
}
MORTISE_BOTH float merged(float left, float right, const MergeFactors& w) {
  return fma(right, w.right, mul(left, w.left));
}

// Returns 1 / sum, or 0 for a row that sees nothing.
MORTISE_BOTH float inverse(float sum) {
#if defined(__CUDA_ARCH__)
  return sum == 0.0f ? 0.0f : __frcp_rn(sum);
#else
  return sum == 0.0f ? 0.0f : 1.0f / sum;
#endif
}

// Returns one element of out. Adding +0 makes a zero O positive; a negative result that is flushed to zero stays -0.
MORTISE_BOTH float normalised(float o, float inverse_of_sum) {
  return fma(o, inverse_of_sum, 0.0f);
}

}  // namespace span
}  // namespace mortise::cuda
