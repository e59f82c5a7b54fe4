// plugins/kernels/cuda/span_mma.cuh: the instructions of the span kernels, ldmatrix and mma, and the addresses at which
// a lane finds its part of a piece of the cache in shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/span.hpp"

namespace mortise::cuda::span {

constexpr unsigned kWarp = 0xffffffffu;

__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Stores of words to shared memory.
__device__ __forceinline__ void store_word_at(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void store_pair_at(std::uint32_t address, float low, float high) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(low), "f"(high) : "memory");
}
__device__ __forceinline__ void load_pair_at(std::uint32_t address, float& low, float& high) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(low), "=f"(high) : "r"(address) : "memory");
}
__device__ __forceinline__ void put_unit_at(std::uint32_t address, const uint4& unit) {  // 16 bytes
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(unit.x), "r"(unit.y), "r"(unit.z),
               "r"(unit.w)
               : "memory");
}

// d += a b, [16, 8] += [16, 16] [16, 8]. Lane l has rows l / 4 (d[0], d[1]) and l / 4 + 8 (d[2], d[3]), and of these
// columns 2 (l % 4) and the next.
__device__ __forceinline__ void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

constexpr std::uint32_t kOnes = 0x3f803f80u;  // two ones in bf16

// Rounds two f32 to bf16, `low` in the lower half.
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// Rows of head_dim elements in shared memory in the cache's order: 8 rows together, kColumns elements of each, 16-byte
// units exchanged. For 16 rows, each lane gives ldmatrix one row address of four 8 x 8 matrices. Has no state.
template <int kHeadDim>
struct Piece {
  static constexpr int kBytes = kKeyChunk * kHeadDim * 2;
  static constexpr int kColumns = span_columns(kHeadDim);
  // bytes to the next columns or rows
  static constexpr int kColumnsStride = 8 * kColumns * 2, kRowsStride = 8 * kHeadDim * 2;
  static constexpr int kPairs = kColumns / 16;  // pairs of units that are together

  // Order of the matrices: (rows 0-7, unit 0) (0-7, 1) (8-15, 0) (8-15, 1). Loaded transposed, V is the operand A of
  // V^T P^T.
  static __device__ __forceinline__ std::uint32_t lane_by_units(int lane) {
    return lane_at(lane, lane / 16, lane / 8 % 2);
  }
  // Order of the matrices: (0-7, 0) (8-15, 0) (0-7, 1) (8-15, 1). K is the operand A of K q^T.
  static __device__ __forceinline__ std::uint32_t lane_by_rows(int lane) {
    return lane_at(lane, lane / 8 % 2, lane / 16);
  }
  // Returns the address of units 2 i and 2 i + 1; `lane_part` is the result of one of the functions above.
  static __device__ __forceinline__ std::uint32_t address(std::uint32_t piece, std::uint32_t lane_part, int i) {
    return piece + i / kPairs * kColumnsStride + (lane_part ^ (i % kPairs * 32));
  }

 private:
  static __device__ __forceinline__ std::uint32_t lane_at(int lane, int upper_rows, int unit) {
    const int row = lane % 8;
    return static_cast<std::uint32_t>(upper_rows * kRowsStride + row * kColumns * 2 +
                                      ((unit ^ (row / (64 / kColumns))) * 16));
  }
};

}  // namespace mortise::cuda::span
