// plugins/kernels/cuda/wgmma.cuh: matrix products of a warpgroup (four warps) with a matrix in shared memory. Along K
// they take steps of 16, as mma.sync does, which gives the same bits.
//
// An accumulator of [64, 8 n] is float[n][4] in each lane: warp w has rows 16 w .. 16 w + 15, placed as `mma` places
// them.
#pragma once

#include <cstdint>

#include "kernels/cuda/bulk.cuh"

namespace mortise::cuda {

// Describes a matrix in shared memory whose rows are stored as in the cache: 8 rows together, `columns` (64, 32 or 16)
// of each, with a swizzle of twice as many bytes. `columns_stride`: bytes from these columns to the next;
// `rows_stride`: from 8 rows to the next 8.
__device__ __forceinline__ std::uint64_t matrix(std::uint32_t address, int columns_stride, int rows_stride,
                                                int columns = 64) {
  const std::uint64_t swizzle = columns == 64 ? 1 : columns == 32 ? 2 : 3;
  return swizzle << 62 | static_cast<std::uint64_t>(rows_stride / 16) << 32 |
         static_cast<std::uint64_t>(columns_stride / 16) << 16 | (address & 0x3ffffu) / 16;
}

// Describes b^T [8, 16] without swizzle, in 256 bytes.
__device__ __forceinline__ std::uint64_t small_matrix(std::uint32_t address) {
  return std::uint64_t{128 / 16} << 16 | (address & 0x3ffffu) / 16;
}

// Returns the descriptor of the matrix that lies `bytes` further on. Both are in shared memory, so the addition carries
// into no other field.
__device__ __forceinline__ std::uint64_t moved(std::uint64_t matrix, int bytes) {
  return matrix + static_cast<std::uint64_t>(bytes / 16);
}

// A batch of products is begin_products, the products, commit_products, wait_products. The registers that the products
// use must have their values before begin_products. After commit_products the products may still run, until
// wait_products returns. `hold` keeps the compiler from moving reads of an accumulator across it.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Returns when at most the last batch still runs.
__device__ __forceinline__ void wait_products_but_last() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
// Returns when at most `count` batches still run.
template <int count>
__device__ __forceinline__ void wait_products_but() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(count) : "memory");
}
template <int n>
__device__ __forceinline__ void hold(float (&d)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])::"memory");
}

template <int n>
__device__ __forceinline__ void hold(std::int32_t (&d)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])::"memory");
}

#define MORTISE_D1(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define MORTISE_D8(i)                                                                                           \
  MORTISE_D1(i), MORTISE_D1(i + 1), MORTISE_D1(i + 2), MORTISE_D1(i + 3), MORTISE_D1(i + 4), MORTISE_D1(i + 5), \
      MORTISE_D1(i + 6), MORTISE_D1(i + 7)
#define MORTISE_D32_NAMES                                                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MORTISE_D64_NAMES                                                                                       \
  MORTISE_D32_NAMES                                                                                             \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// d = a b or, with `adds`, d += a b. a [64, 16] and b^T [128, 16] are in shared memory, 16 elements along their rows.
__device__ __forceinline__ void product(float (&d)[16][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" MORTISE_D64_NAMES "}, %64, %65, p, 1, 1, 0, 0;\n}"
      : MORTISE_D8(0), MORTISE_D8(8)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

// The same with a in registers, laid out as for `mma`, and 16 rows of b [16, n].
__device__ __forceinline__ void product(float (&d)[16][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" MORTISE_D64_NAMES
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
      : MORTISE_D8(0), MORTISE_D8(8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void product(float (&d)[8][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" MORTISE_D32_NAMES
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
      : MORTISE_D8(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}

__device__ __forceinline__ void product(float (&d)[12][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %53, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {" MORTISE_D32_NAMES
      ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, {%48, %49, %50, %51}, %52, "
      "p, "
      "1, 1, 1;\n}"
      : MORTISE_D8(0), MORTISE_D1(8), MORTISE_D1(9), MORTISE_D1(10), MORTISE_D1(11)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void product(float (&d)[10][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %45, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" MORTISE_D32_NAMES
      ", %32, %33, %34, %35, %36, %37, %38, %39}, {%40, %41, %42, %43}, %44, p, 1, 1, 1;\n}"
      : MORTISE_D8(0), MORTISE_D1(8), MORTISE_D1(9)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void product(float (&d)[4][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n}"
      : MORTISE_D1(0), MORTISE_D1(1), MORTISE_D1(2), MORTISE_D1(3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}

// The same with b^T [8, 16] without swizzle: 16 bytes of each of the 8 rows, then the next 16 bytes.
__device__ __forceinline__ void product(float (&d)[1][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;\n}"
      : MORTISE_D1(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}

// d = a b or, with `adds`, d += a b. a [64, 16] is in registers, laid out as for `mma`; b^T [n, 16] is in shared
// memory, 16 elements along its rows.
#define MORTISE_D128_NAMES                                                                                       \
  MORTISE_D64_NAMES                                                                                              \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, "  \
  "%85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, "    \
  "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, " \
  "%123, %124, %125, %126, %127"
__device__ __forceinline__ void row_product(float (&d)[4][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15}, {%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}"
      : MORTISE_D1(0), MORTISE_D1(1), MORTISE_D1(2), MORTISE_D1(3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(float (&d)[8][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" MORTISE_D32_NAMES
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
      : MORTISE_D8(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(float (&d)[16][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                            bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" MORTISE_D64_NAMES
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}"
      : MORTISE_D8(0), MORTISE_D8(8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(float (&d)[32][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                            bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" MORTISE_D128_NAMES
      "}, {%128, %129, %130, %131}, %132, p, 1, 1, 0;\n}"
      : MORTISE_D8(0), MORTISE_D8(8), MORTISE_D8(16), MORTISE_D8(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}

// The same with a [64, 16] in shared memory, 16 elements along its rows.
__device__ __forceinline__ void row_product(float (&d)[1][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
      : MORTISE_D1(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(float (&d)[2][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n}"
      : MORTISE_D1(0), MORTISE_D1(1)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(float (&d)[4][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15}, %16, %17, p, 1, 1, 0, 0;\n}"
      : MORTISE_D1(0), MORTISE_D1(1), MORTISE_D1(2), MORTISE_D1(3)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

__device__ __forceinline__ void row_product(float (&d)[8][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" MORTISE_D32_NAMES "}, %32, %33, p, 1, 1, 0, 0;\n}"
      : MORTISE_D8(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

__device__ __forceinline__ void row_product(float (&d)[14][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %58, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {" MORTISE_D32_NAMES
      ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
      "%54, %55}, %56, %57, p, 1, 1, 0, 0;\n}"
      : MORTISE_D8(0), MORTISE_D1(8), MORTISE_D1(9), MORTISE_D1(10), MORTISE_D1(11), MORTISE_D1(12), MORTISE_D1(13)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

__device__ __forceinline__ void row_product(float (&d)[16][4], std::uint64_t a, std::uint64_t b, bool adds) {
  product(d, a, b, adds);
}

__device__ __forceinline__ void row_product(float (&d)[28][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %114, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16 {" MORTISE_D64_NAMES
      ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "
      "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, "
      "%107, %108, %109, %110, %111}, %112, %113, p, 1, 1, 0, 0;\n}"
      : MORTISE_D8(0), MORTISE_D8(8), MORTISE_D8(16), MORTISE_D1(24), MORTISE_D1(25), MORTISE_D1(26), MORTISE_D1(27)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

__device__ __forceinline__ void row_product(float (&d)[32][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" MORTISE_D128_NAMES "}, %128, %129, p, 1, 1, 0, 0;\n}"
      : MORTISE_D8(0), MORTISE_D8(8), MORTISE_D8(16), MORTISE_D8(24)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

// Signed bytes with exact 32-bit sums: d = a b or, with `adds`, d += a b. a [64, 32] is in registers, laid out as for
// `mma`; b^T [n, 32] is in shared memory, 32 bytes along its rows.
#define MORTISE_I1(i) "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])
#define MORTISE_I4(i) MORTISE_I1(i), MORTISE_I1(i + 1), MORTISE_I1(i + 2), MORTISE_I1(i + 3)
#define MORTISE_I16(i) MORTISE_I4(i), MORTISE_I4(i + 4), MORTISE_I4(i + 8), MORTISE_I4(i + 12)
__device__ __forceinline__ void product(std::int32_t (&d)[4][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                        bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15}, {%16, %17, %18, %19}, %20, p;\n}"
      : MORTISE_I4(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void product(std::int32_t (&d)[8][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                        bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" MORTISE_D32_NAMES "}, {%32, %33, %34, %35}, %36, p;\n}"
      : MORTISE_I4(0), MORTISE_I4(4)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void product(std::int32_t (&d)[16][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                        bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" MORTISE_D64_NAMES "}, {%64, %65, %66, %67}, %68, p;\n}"
      : MORTISE_I16(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void product(std::int32_t (&d)[32][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                        bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" MORTISE_D128_NAMES
      "}, {%128, %129, %130, %131}, %132, p;\n}"
      : MORTISE_I16(0), MORTISE_I16(16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}

// The same with a [64, 32] in shared memory, 32 bytes along its rows.
__device__ __forceinline__ void row_product(std::int32_t (&d)[1][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0, %1, %2, %3}, %4, %5, p;\n}"
      : MORTISE_I1(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(std::int32_t (&d)[2][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p;\n}"
      : MORTISE_I1(0), MORTISE_I1(1)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(std::int32_t (&d)[4][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15}, %16, %17, p;\n}"
      : MORTISE_I4(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(std::int32_t (&d)[8][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" MORTISE_D32_NAMES "}, %32, %33, p;\n}"
      : MORTISE_I4(0), MORTISE_I4(4)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void row_product(std::int32_t (&d)[16][4], std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" MORTISE_D64_NAMES "}, %64, %65, p;\n}"
      : MORTISE_I16(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

#undef MORTISE_I1
#undef MORTISE_I4
#undef MORTISE_I16
#undef MORTISE_D128_NAMES

#undef MORTISE_D1
#undef MORTISE_D8
#undef MORTISE_D32_NAMES
#undef MORTISE_D64_NAMES

// Makes this thread's writes to shared memory visible to products that start after a barrier.
__device__ __forceinline__ void publish_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace mortise::cuda
