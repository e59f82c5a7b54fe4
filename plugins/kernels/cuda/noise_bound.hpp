// plugins/kernels/cuda/noise_bound.hpp: upper bounds of Gumbel noise that need no logarithm, for the GPU and, bit by
// bit the same, for the host. A token whose prepared logit plus such a bound is below the best score so far cannot win:
// rounding is monotonic, so f32(x + bound) >= f32(x + noise).
//
// Derivation, with v = (r + 0.5) 2^-32 as in docs/numerics.md and f = f32(r), whose bits as an integer are b:
//   noise = -log(-log1p(-v)) <= -log v        since -log1p(-v) >= v; so a small r gives large noise
//   -log v <= (32 - log2 f) log 2 + 2^-24     since r + 0.5 > r, and f exceeds r by a factor of at most 1 + 2^-24
//   log2 f >= b 2^-23 - 127                   for f > 0, f = 2^e (1 + m): log2(1 + m) >= m, a chord of a concave curve
//   so noise <= (159 - b 2^-23) log 2 + 2^-24, also for r = 0, where b = 0 gives 110 and the noise is 33 log 2 = 22.87.
// b enters as b >> 8 in the mantissa of t = 2^23 + (b >> 8): dropping bits of b only raises the bound. Then
//   bound = (159 + 256) log 2 + kSlack - t * log 2 * 2^-15
// is one fma. kSlack covers 2^-24, the two rounded constants (together below 4e-5), the rounding of the fma (2e-6) and
// the rounding of the noise itself (below 1e-5: two logarithms of at most 2 units in the last place).
// For r < 2^24 the bound is at most 0.06 + kSlack above the noise: the chord's distance, and log1p's.
// Oracle: reference/noise.hpp (tests/plugins/kernels/cuda/noise_bound_test.cpp; every r in math_test.cpp, on a GPU).
#pragma once

#include <cstdint>

#ifdef __CUDA_ARCH__
#define MORTISE_HOST_AND_DEVICE __host__ __device__ __forceinline__
#elif defined(__CUDACC__)
#include <bit>
#include <cmath>
#define MORTISE_HOST_AND_DEVICE __host__ __device__ inline
#else
#include <bit>
#include <cmath>
#define MORTISE_HOST_AND_DEVICE inline
#endif

namespace mortise::cuda {

constexpr float kMostNoise = 22.88f;  // the noise of r = 0 is 33 log 2 = 22.8739

MORTISE_HOST_AND_DEVICE float noise_at_most(std::uint32_t r) {
  constexpr float kSlack = 0.001f;
  constexpr float kOffset = static_cast<float>(415 * 0.693147180559945309 + static_cast<double>(kSlack));
  constexpr float kSlope = static_cast<float>(-0.693147180559945309 / 32768);
#ifdef __CUDA_ARCH__
  const std::uint32_t bits = __float_as_uint(__uint2float_rn(r));
  return __fmaf_rn(__uint_as_float(__byte_perm(bits, 0x4b, 0x4321)), kSlope, kOffset);  // 0x4b000000 | bits >> 8
#else
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(r));
  return std::fma(std::bit_cast<float>(0x4b000000u | bits >> 8), kSlope, kOffset);
#endif
}

}  // namespace mortise::cuda

#undef MORTISE_HOST_AND_DEVICE
