// plugins/kernels/cuda/mxfp4_rows.cuh: MXFP4 weights as operands of tensor cores.
#pragma once

#include <cstdint>

namespace mortise::cuda {

__device__ __forceinline__ std::uint32_t product_of_bf16(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
#if __CUDA_ARCH__ >= 900
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
#else  // compute capability 8 has no product of bf16 alone; adding -0 changes no product, not even a zero
  constexpr std::uint32_t kMinusZeros = 0x80008000u;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(kMinusZeros));
#endif
  return product;
}

// The factors of a group's numbers, twice: what widen_mxfp4 multiplies with. `exponents`: the row's word in
// Mxfp4Layout. kSmall: the scale times 2^126; otherwise twice the scale.
template <bool kSmall>
__device__ __forceinline__ std::uint32_t factors_of(std::uint32_t exponents, int group) {
  const std::uint32_t pair = __byte_perm(exponents, 0, 0x4040 | 0x0101 * static_cast<unsigned>(group));
  return (pair << 7) + (kSmall ? 0x3e803e80u : 0u);  // 0x3e80: an exponent of 125
}

// Widens the eight numbers of a word to bf16, exactly: pairs[0] and [1] are the operand of the first of its two steps
// of sixteen columns, pairs[2] and [3] that of the second. Moved to the low bits of bf16's exponent and the first of
// its mantissa they are numbers times 2^-126, some of them denormals. With a small scale one product gives the weights.
// Otherwise the factor would exceed bf16: times 2^125 they are halves of the numbers, and times twice the scale the
// weights. Every product is exact: bf16 products do not flush denormals, and a weight is a bf16 number.
// Shifts and masks take most of the time: 11 of them for 8 numbers, as the places of the numbers are chosen.
template <bool kSmall>
__device__ __forceinline__ void widen_mxfp4(std::uint32_t word, std::uint32_t factors, std::uint32_t (&pairs)[4]) {
  constexpr std::uint32_t kWhole = 0x81c081c0u, kSign = 0x80008000u, kExponent = 0x01800180u, kMantissa = 0x00400040u;
  pairs[0] = word & kWhole;
  pairs[1] = word << 3 & kWhole;
  pairs[2] = word << 6 & kWhole;
  pairs[3] = (word >> 6 & kExponent) | (word >> 5 & kMantissa) | (word << 5 & kSign);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    constexpr std::uint32_t kHalves = 0x7e007e00u;  // 2^125 twice
    const std::uint32_t number = kSmall ? pairs[j] : product_of_bf16(pairs[j], kHalves);
    pairs[j] = product_of_bf16(number, factors);
  }
}

}  // namespace mortise::cuda
