// plugins/kernels/cuda/transposed.cuh: columns of y in registers, as bf16, and their way through shared memory into
// rows.
#pragma once

#include <cstdint>

namespace mortise::cuda {

// A pair of two_bf16 (packed.cuh) with the canonical NaN, 0x7fc0, in place of 0x7fff, which no number is.
__device__ __forceinline__ std::uint32_t with_canonical_nan(std::uint32_t pair) {
  const std::uint32_t nans = ((pair & 0x7fff7fffu) + 0x00010001u) >> 15 & 0x00010001u;
  return pair - 0x3fu * nans;
}

// Stores four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l / 8, and has two
// elements of column l / 4 of each matrix, those of rows 2 (l % 4) and the next one.
__device__ __forceinline__ void store_transposed(std::uint32_t address, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace mortise::cuda
