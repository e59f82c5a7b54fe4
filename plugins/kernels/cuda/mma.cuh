// mma.cuh: the tensor-core instruction of class cuda-bf16/1, d += a b with a [16, 16] row-major, b [16, 8]
// column-major. With g = lane / 4 and t = 2 * (lane % 4), a lane holds
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

}  // namespace mortise::cuda
