// plugins/kernels/cuda/packed.cuh: eight bf16 elements in the 16 bytes in which memory has them. Rounding two numbers
// is one instruction here, where to_bf16 takes six for each; kernels that stream many rows are limited by such
// instructions. The bits are those of to_bf16.
// Also exchanges packed pairs among the lanes of a row.
#pragma once

#include <cstdint>

namespace mortise::cuda {

// Rounds both numbers to nearest, ties to even, keeping denormals. A NaN becomes 0x7fff, which is not the canonical
// NaN.
__device__ __forceinline__ std::uint32_t two_bf16(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ __forceinline__ void unpack(const uint4& packed, float (&x)[8]) {
  const std::uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(words[i] << 16);
    x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

// For numbers that are not stored: a NaN is any NaN.
__device__ __forceinline__ uint4 rounded_eight(const float (&x)[8]) {
  return {two_bf16(x[0], x[1]), two_bf16(x[2], x[3]), two_bf16(x[4], x[5]), two_bf16(x[6], x[7])};
}

// Two numbers that are stored: with the canonical NaN.
__device__ __forceinline__ std::uint32_t stored_pair(float low, float high) {
  const std::uint32_t both = two_bf16(low, high), nans = (both + 0x00010001u) & ~both & 0x80008000u;
  return both - (nans >> 15) * 0x3fu;
}

// Replaces NaNs of two_bf16 by the canonical NaN. Adding one to 0x7fff sets the sign, which no other number gains.
__device__ __forceinline__ uint4 with_canonical_nans(uint4 packed) {
  constexpr std::uint32_t kOnes = 0x00010001u, kSigns = 0x80008000u;
  const auto nans = [](std::uint32_t word) { return (word + kOnes) & ~word & kSigns; };
  // The lower half of a word that is -NaN would carry into the upper half, but two_bf16 makes none.
  if ((nans(packed.x) | nans(packed.y) | nans(packed.z) | nans(packed.w)) != 0) {
    packed.x -= (nans(packed.x) >> 15) * 0x3fu;
    packed.y -= (nans(packed.y) >> 15) * 0x3fu;
    packed.z -= (nans(packed.z) >> 15) * 0x3fu;
    packed.w -= (nans(packed.w) >> 15) * 0x3fu;
  }
  return packed;
}

// For numbers that are stored.
__device__ __forceinline__ uint4 packed_eight(const float (&x)[8]) {
  return with_canonical_nans(rounded_eight(x));
}

// Moves pair j of lane t to place t of lane j, among the four lanes of a row.
__device__ __forceinline__ void transpose(std::uint32_t (&pairs)[4]) {
  const unsigned t = threadIdx.x % 4;
#pragma unroll
  for (unsigned by = 1; by <= 2; by *= 2) {
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      if ((j & by) != 0) continue;
      // The lane keeps one of pairs j and j + by, and gets the other from its partner.
      const bool upper = (t & by) != 0;
      const std::uint32_t sent = upper ? pairs[j] : pairs[j + by];
      const std::uint32_t got = __shfl_xor_sync(0xffffffffu, sent, by);
      (upper ? pairs[j] : pairs[j + by]) = got;
    }
  }
}

}  // namespace mortise::cuda
