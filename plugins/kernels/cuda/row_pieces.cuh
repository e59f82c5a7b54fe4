// plugins/kernels/cuda/row_pieces.cuh: pieces of the rows of a matrix, copied to shared memory by TMA.
#pragma once

#include <cstdint>

#include "kernels/cuda/tensor_map.hpp"

namespace mortise::cuda {

// Describes `matrix` [rows, columns], whose rows are `stride_bytes` apart, in pieces of piece_rows x piece_columns
// elements. A row of a piece has 128 bytes, which are swizzled. Elements outside of the matrix are zeros.
inline cudaError_t describe_pieces(CUtensorMapDataType type, const void* matrix, std::int64_t rows,
                                   std::int64_t columns, std::int64_t stride_bytes, int piece_rows, int piece_columns,
                                   CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(piece_columns), static_cast<cuuint32_t>(piece_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result =
      encode(&map, type, 2, const_cast<void*>(matrix), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Copies the piece that begins at element `column` of row `row`. Its bytes count towards the barrier.
__device__ __forceinline__ void copy_piece(std::uint32_t to, const CUtensorMap& from, int column, int row,
                                           std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(&from), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// The same for all blocks of a cluster that are in `blocks` (a bit each): the piece comes to the same place in each,
// and counts towards the barrier in the same place.
__device__ __forceinline__ void copy_piece_to_cluster(std::uint32_t to, const CUtensorMap& from, int column, int row,
                                                      std::uint32_t barrier, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&from), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace mortise::cuda
