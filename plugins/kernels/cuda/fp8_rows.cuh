// plugins/kernels/cuda/fp8_rows.cuh: E4M3 numbers (widening to operands of tensor cores, rounding to E4M3), and how
// TMA takes the rows of x.
#pragma once

#include <cstdint>

#include "kernels/cuda/row_pieces.cuh"

namespace mortise::cuda {

// Widens the four numbers of a word to bf16, exactly: `first` has those of bytes 1 and 3, `second` those of bytes 0 and
// 2. An E4M3 exponent placed in the low bits of bf16's exponent gives the number times 2^-120. Multiplying by 2^120 is
// exact, and mul.bf16x2 does not flush denormals.
__device__ __forceinline__ void widen_fp8(std::uint32_t word, std::uint32_t& first, std::uint32_t& second) {
  constexpr std::uint32_t kSigns = 0x80008000u, kMagnitudes = 0x07f007f0u, kFactors = 0x7b807b80u;  // 2^120 twice
  const std::uint32_t a = (word & kSigns) | (word >> 4 & kMagnitudes);
  const std::uint32_t b = (word << 8 & kSigns) | (word << 4 & kMagnitudes);
#if __CUDA_ARCH__ >= 900
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(first) : "r"(a), "r"(kFactors));
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(second) : "r"(b), "r"(kFactors));
#else  // compute capability 8 has no product of bf16 alone; adding -0 changes no product, not even a zero
  constexpr std::uint32_t kMinusZeros = 0x80008000u;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(first) : "r"(a), "r"(kFactors), "r"(kMinusZeros));
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(second) : "r"(b), "r"(kFactors), "r"(kMinusZeros));
#endif
}

// Nearest, ties to even. REQUIRES: |x| < 464.
__device__ __forceinline__ std::uint8_t to_e4m3(float x) {
  const std::uint32_t u = __float_as_uint(x), sign = u >> 24 & 0x80u, magnitude = u & 0x7fffffffu;
  constexpr std::uint32_t kNormal = (127 - 6) << 23;
  // Below 2^-6 neighbours are 2^-9 apart: adding 2^14 rounds to them.
  const std::uint32_t small =
      __float_as_uint(__fadd_rn(__uint_as_float(magnitude), 0x1p14f)) - __float_as_uint(0x1p14f);
  const std::uint32_t usual = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u) - ((127u - 7u) << 23)) >> 20;
  return static_cast<std::uint8_t>(sign | (magnitude < kNormal ? small : usual));
}

constexpr int kFp8Swizzled = 64;  // elements of x along K that are swizzled together, as in linear_stream.cuh

// Describes x [m, k] in pieces of `piece_rows` rows and kFp8Swizzled elements; rows are `stride` elements apart.
inline cudaError_t describe_fp8_rows(const std::uint16_t* x, std::int64_t m, std::int64_t k, std::int64_t stride,
                                     int piece_rows, CUtensorMap& map) {
  return describe_pieces(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x, m, k, stride * 2, piece_rows, kFp8Swizzled, map);
}

}  // namespace mortise::cuda
