// plugins/kernels/cuda/linear_stream.cuh: the common part of the kernels of linear_stream.hpp: pieces of weights that
// TMA loads, and the elements of y that a lane writes.
//
// Weights are the a operand of the instruction (sixteen columns of y, a "tile"), rows of x the b operand. One lane
// requests a whole piece (cp.async.bulk.tensor). Requested row by row, a piece would cost its warp 900 cycles, more
// than multiplying it. TMA permutes 16-byte units so that ldmatrix reads from all banks ("128-byte
// swizzle"): a piece is [depth / 64][rows][64], with unit u of row r at u ^ (r % 8).
#pragma once

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/linear_mma.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tensor_map.hpp"

namespace mortise::cuda::stream {

constexpr int kColumns = 16;   // columns of y in a tile
constexpr int kStep = 16;      // elements along K per instruction
constexpr int kSwizzled = 64;  // elements along K that are swizzled together
constexpr int kSwizzledBytes = kColumns * kSwizzled * 2;
constexpr int kGroup = 4;  // instructions whose fragments are loaded together
static_assert(kGroup * kStep == kSwizzled);
// A block on Hopper may have 227 KiB. The rest is left for a block of the preceding or following kernel, such as a
// norm.
constexpr int kSharedBytes = 203 << 10;

inline std::int64_t num_tiles(const LinearArgs& args) {
  return (args.n + kColumns - 1) / kColumns;
}

// Describes a bf16 matrix [rows, k], with rows `stride` elements apart, in pieces of `piece_rows` rows and `depth`
// elements. Elements outside of the matrix are zeros.
inline cudaError_t describe(const std::uint16_t* matrix, std::int64_t rows, std::int64_t k, std::int64_t stride,
                            int piece_rows, int depth, CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[] = {kSwizzled, static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(k / kSwizzled)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2, kSwizzled * 2};  // bytes
  const cuuint32_t box[] = {kSwizzled, static_cast<cuuint32_t>(piece_rows), static_cast<cuuint32_t>(depth / kSwizzled)};
  const cuuint32_t steps[] = {1, 1, 1};
  // L2_PROMOTION_L2_256B would reduce the rate of the weights from 4.4 to 4.2 TB/s (H200).
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<std::uint16_t*>(matrix), sizes,
                                 strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Copies the piece of a described matrix that begins at `row` and at element 64 * `group` of its rows.
__device__ __forceinline__ void copy_piece(std::uint32_t to, const CUtensorMap& from, int row, int group,
                                           std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(&from), "r"(0), "r"(row), "r"(group), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void copy_piece(std::uint32_t to, const CUtensorMap& from, int row, int group,
                                           std::uint32_t barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&from), "r"(0), "r"(row), "r"(group), "r"(barrier), "l"(policy)
      : "memory");
}

// Writes the warp's part of a tile for eight rows of x, from `first_row` on.
__device__ __forceinline__ void write(const LinearArgs& args, int tile, int first_row, const float (&d)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t n = static_cast<std::int64_t>(tile) * kColumns + lane / 4 + j / 2 * 8;
    const std::int64_t m = first_row + lane % 4 * 2 + j % 2;
    if (n >= args.n || m >= args.m) continue;
    const float y = args.bias == nullptr ? d[j] : __fadd_rn(d[j], args.bias[n]);
    if (args.y_type == ElementType::kBf16) {
      put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
    } else {
      put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
    }
  }
}

// The operands of kGroup steps.
struct Fragments {
  std::uint32_t w[kGroup][4], x[kGroup / 2][4];

  // `unit`: the 16-byte unit in the lane's row where the piece begins. Further units are swizzled in the same way.
  __device__ __forceinline__ void load(std::uint32_t piece, std::uint32_t unit, std::uint32_t from_x,
                                       std::uint32_t x_step, int group) {
    load_x(from_x, x_step, group);
    load_weights(piece, unit, group);
  }
  __device__ __forceinline__ void load_x(std::uint32_t from_x, std::uint32_t x_step, int group) {
#pragma unroll
    for (int i = 0; i < kGroup; i += 2) load_matrices(x[i / 2], from_x + x_step * (group * kSwizzled + i * kStep) * 2);
  }
  __device__ __forceinline__ void load_weights(std::uint32_t piece, std::uint32_t unit, int group) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) load_matrices(w[i], piece + group * kSwizzledBytes + (unit ^ i * kStep * 2));
  }
  __device__ __forceinline__ void multiply(float (&d)[4]) const {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const std::uint32_t b[2] = {x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]};
      mma_m16n8k16(d, w[i], b);
    }
  }
};

}  // namespace mortise::cuda::stream
