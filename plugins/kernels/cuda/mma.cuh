// plugins/kernels/cuda/mma.cuh: the tensor-core instruction of class cuda-bf16/1, d += a b with a [16, 16] row-major, b
// [16, 8] column-major. With g = lane / 4 and t = 2 * (lane % 4), a lane holds
//   a: (g, t) (g + 8, t) (g, t + 8) (g + 8, t + 8), pairs along k;  b: (t, g) (t + 8, g), pairs along k
//   d: (g, t) (g, t + 1) (g + 8, t) (g + 8, t + 1)
#pragma once

#include <cstdint>

namespace mortise::cuda {

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for signed bytes with exact 32-bit sums: a [16, 32], b [32, 8]. With t = 4 * (lane % 4) a lane holds
//   a: (g, t) (g + 8, t) (g, t + 16) (g + 8, t + 16), four along k;  b: (t, g) (t + 16, g), four along k;  d as above
__device__ __forceinline__ void mma_m16n8k32(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same with unsigned bytes in a.
__device__ __forceinline__ void mma_m16n8k32_unsigned(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                                      const std::uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// mma_m16n8k32 with d = a b.
__device__ __forceinline__ void first_mma_m16n8k32(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                                   const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
}

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// ldmatrix: loads four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l / 8 (16
// bytes), and receives elements 2 (l % 4) and the next one of row l / 4 of each matrix.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// stmatrix: stores four such matrices. Lane l passes the address of row l % 8 of matrix l / 8, and has elements
// 2 (l % 4) and the next one of row l / 4 of each matrix. For GPUs of compute capability 9 and later.
__device__ __forceinline__ void store_matrices(std::uint32_t address, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace mortise::cuda
