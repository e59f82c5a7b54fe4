// plugins/kernels/cuda/fp8_rows.cuh: E4M3 numbers (widening to operands of tensor cores, rounding to E4M3) and copies
// of rows of x to shared memory by TMA.
#pragma once

#include <cstdint>

#include "kernels/cuda/tensor_map.hpp"

namespace mortise::cuda {

// Widens the four numbers of a word to bf16, exactly: `first` has those of bytes 1 and 3, `second` those of bytes 0 and
// 2. Placed with the exponent's low bits, a number is 2^-120 of what it should be; the product is exact, and the
// instruction takes denormals as they are.
__device__ __forceinline__ void widen_fp8(std::uint32_t word, std::uint32_t& first, std::uint32_t& second) {
  constexpr std::uint32_t kSigns = 0x80008000u, kMagnitudes = 0x07f007f0u, kFactors = 0x7b807b80u;  // 2^120 twice
  const std::uint32_t a = (word & kSigns) | (word >> 4 & kMagnitudes);
  const std::uint32_t b = (word << 8 & kSigns) | (word << 4 & kMagnitudes);
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(first) : "r"(a), "r"(kFactors));
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(second) : "r"(b), "r"(kFactors));
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

// Describes x [m, k] in pieces of `piece_rows` rows and kFp8Swizzled elements. Elements outside of it are zeros.
inline cudaError_t describe_fp8_rows(const std::uint16_t* x, std::int64_t m, std::int64_t k, std::int64_t stride,
                                     int piece_rows, CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(k), static_cast<cuuint64_t>(m)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};  // bytes
  const cuuint32_t box[] = {kFp8Swizzled, static_cast<cuuint32_t>(piece_rows)}, steps[] = {1, 1};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<std::uint16_t*>(x), sizes,
                                 strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Copies the piece of described rows that begins at element `column` of row `row`.
__device__ __forceinline__ void copy_fp8_rows(std::uint32_t to, const CUtensorMap& from, int column, int row,
                                              std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(&from), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// The same for all blocks of a cluster that are in `blocks` (a bit each): the piece comes to the same place in each,
// and counts towards the barrier in the same place.
__device__ __forceinline__ void copy_fp8_rows_to_cluster(std::uint32_t to, const CUtensorMap& from, int column, int row,
                                                         std::uint32_t barrier, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&from), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace mortise::cuda
