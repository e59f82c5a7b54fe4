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

// Returns the sign bits of the NaNs that two_bf16 made. Adding one to 0x7fff sets the sign, which no other number
// gains. The lower half of a word that is -NaN would carry into the upper half, but two_bf16 makes none.
__device__ __forceinline__ std::uint32_t nans_of(std::uint32_t word) {
  return (word + 0x00010001u) & ~word & 0x80008000u;
}
// Replaces those NaNs by the canonical NaN.
__device__ __forceinline__ std::uint32_t with_canonical_nans(std::uint32_t word) {
  return word - (nans_of(word) >> 15) * 0x3fu;
}
__device__ __forceinline__ uint4 with_canonical_nans(uint4 packed) {
  if ((nans_of(packed.x) | nans_of(packed.y) | nans_of(packed.z) | nans_of(packed.w)) != 0) {
    packed.x = with_canonical_nans(packed.x);
    packed.y = with_canonical_nans(packed.y);
    packed.z = with_canonical_nans(packed.z);
    packed.w = with_canonical_nans(packed.w);
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
