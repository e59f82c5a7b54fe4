// plugins/kernels/cuda/int_row_pieces.cuh: rows of q (int_rows.hpp) as TMA takes them.
#pragma once

#include <cstdint>

#include "kernels/cuda/int_weight.hpp"
#include "kernels/cuda/tensor_map.hpp"

namespace mortise::cuda {

// Describes q [m][row_bytes] in pieces of `tile_rows` rows and a chunk, swizzled. Bytes outside of it are zeros.
inline cudaError_t describe_rows(const void* q, std::int64_t m, std::int64_t row_bytes, int tile_rows,
                                 CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(row_bytes), static_cast<cuuint64_t>(m)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t box[] = {kIntChunk, static_cast<cuuint32_t>(tile_rows)}, steps[] = {1, 1};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(q), sizes, strides, box,
                                 steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Copies the piece of described rows that begins at byte `column` of row `row`.
__device__ __forceinline__ void copy_rows(std::uint32_t to, const CUtensorMap& from, int column, int row,
                                          std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(&from), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

}  // namespace mortise::cuda
