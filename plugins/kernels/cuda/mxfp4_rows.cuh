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

// Twice the scale of group `group` of a row, as a pair of bf16. `exponents`: the row's word in Mxfp4Layout.
__device__ __forceinline__ std::uint32_t twice_scale_of(std::uint32_t exponents, int group) {
  const std::uint32_t exponent = exponents >> 8 * group & 0xffu;
  return exponent << 7 | exponent << 23;
}

// Widens the eight numbers of a word to bf16, exactly: pairs[0] and [1] are the operand of the first of its two steps
// of sixteen columns, pairs[2] and [3] that of the second. E2M1 exponents placed in the low bits of bf16's exponent
// give the numbers times 2^-126. Times 2^125 they are halves of the numbers, and times twice the scale, at least
// 2^-126, the weights. Both products are exact: bf16 products do not flush denormals, and a weight is a bf16 number.
__device__ __forceinline__ void widen_mxfp4(std::uint32_t word, std::uint32_t twice_scale, std::uint32_t (&pairs)[4]) {
  constexpr std::uint32_t kSigns = 0x80008000u, kMagnitudes = 0x01c001c0u, kFactors = 0x7e007e00u;  // 2^125 twice
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::uint32_t magnitudes = j < 2 ? word >> (6 - 4 * j) : word << (4 * j - 6);
    const std::uint32_t small = (word << 4 * j & kSigns) | (magnitudes & kMagnitudes);
    pairs[j] = product_of_bf16(product_of_bf16(small, kFactors), twice_scale);
  }
}

}  // namespace mortise::cuda
