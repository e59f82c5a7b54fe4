// plugins/kernels/cuda/int4_many_ring.cuh: how blocks of linear_int4_many divide the work, and the ring in shared
// memory through which they receive weights and rows of q. A place of the ring has one chunk of K: all rows of a tile,
// and the panels of its columns as they are in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/int_rows.hpp"
#include "kernels/cuda/int_weight.hpp"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda {

constexpr int kWarpgroup = 128, kWarpgroupPanels = 64 / kIntPanel;
constexpr int kMultipliers = 2;  // warpgroups
constexpr int kUsers = 4 * kMultipliers, kPanels = kMultipliers * kWarpgroupPanels, kColumns = kPanels * kIntPanel;
constexpr int kThreads = (kMultipliers + 1) * kWarpgroup;
constexpr int kLoaders = kWarpgroup / 32;  // warps
constexpr int kCluster = 2;                // blocks
// Registers of a loading and of a multiplying thread. Together they are what the block has at its launch.
constexpr int kFewRegisters = 24, kManyRegisters = 240, kLaunchRegisters = 65536 / kThreads / 8 * 8;
static_assert(kFewRegisters + kMultipliers * kManyRegisters <= (kMultipliers + 1) * kLaunchRegisters);
constexpr int kSharedBytes = 227 << 10, kMostPlaces = 8;
constexpr int kOffsetBytes = 1024;  // of the matrix that sets accumulators: eight rows, which stand for all

template <int kSets, int kTileRows>
struct ManyShape {
  static constexpr int kRowBytes = kTileRows * kIntChunk, kChunkBytes = int_chunk_bytes(4, kSets);
  // Rows of q begin at multiples of 1024 bytes, as the swizzle of TMA requires.
  static constexpr int kPlaceBytes = (kRowBytes + kPanels * kChunkBytes + 1023) / 1024 * 1024;
  static constexpr int kOutBytes = kTileRows * kIntPanel * 2;  // of a warp, to transpose what it writes
  static constexpr int kPlaces =
      std::min((kSharedBytes - kUsers * kOutBytes - kOffsetBytes - 2 * 8 * kMostPlaces) / kPlaceBytes, kMostPlaces);
  static_assert(kPlaces >= kLoaders && kIntRowsPadded % kTileRows == 0 && kCluster * kColumns <= kIntColumns);
  static constexpr int kOfOffset = kPlaces * kPlaceBytes, kOut = kOfOffset + kOffsetBytes;
  static constexpr int kBarriers = kOut + kUsers * kOutBytes;
  static constexpr int kBytes = kBarriers + 2 * 8 * kPlaces;
};

struct ManyArgs {
  CUtensorMap q;        // [m][chunks * kIntChunk] bytes
  CUtensorMap weights;  // [panels][bytes of a panel / 8], in pieces of one chunk of the panels of a tile
  LinearIntArgs linear;
  const float* row_scales;
  std::int32_t chunks;  // in a panel
  std::int32_t row_tiles, column_tiles;
  std::int32_t pairs;  // of tiles, one for each block of a cluster
  bool whole_vectors;  // y is bf16, and sixteen bytes can be written at once
};

// Describes the panels of a weight in pieces of one chunk of a tile's panels.
inline cudaError_t describe_panels(const std::byte* w, std::int64_t panels, std::int64_t panel_bytes,
                                   std::int64_t chunk_bytes, CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  // Elements of eight bytes, because a piece may have at most 256 elements along a row.
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(panel_bytes / 8), static_cast<cuuint64_t>(panels)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(panel_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(chunk_bytes / 8), kPanels};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_INT64, 2, const_cast<std::byte*>(w), sizes, strides, box,
                                 steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// The order of the pairs of tiles: bands of rows, and in each band column after column. So blocks that run at the same
// time share rows and weights, and the rows of a band stay in the L2. The last pair of a row may lack a tile: its block
// computes the tile before once more and does not write it.
struct TilePosition {
  int row, column;  // in tiles
  bool exists;
};
__device__ __forceinline__ TilePosition position_of(const ManyArgs& args, int pair, int rank) {
  constexpr int kBand = 8;
  const int column_pairs = args.pairs / args.row_tiles, of_band = kBand * column_pairs;
  const int first = pair / of_band * kBand, rows = min(kBand, args.row_tiles - first), i = pair % of_band;
  const int column = kCluster * (i / rows) + rank;
  return {first + i % rows, min(column, args.column_tiles - 1), column < args.column_tiles};
}

// A place in the ring. `phase` is 0 after an even number of passes over the ring, otherwise 1: it is the phase of the
// place's barriers.
template <class S>
struct ManyPlace {
  std::uint32_t memory;
  int at = 0, phase = 0;
  __device__ __forceinline__ std::uint32_t rows() const { return memory + at * S::kPlaceBytes; }
  __device__ __forceinline__ std::uint32_t panel(int i) const { return rows() + S::kRowBytes + i * S::kChunkBytes; }
  __device__ __forceinline__ std::uint32_t full() const { return memory + S::kBarriers + 8 * at; }
  __device__ __forceinline__ std::uint32_t free() const { return full() + 8 * S::kPlaces; }
  template <int count = 1>
  __device__ __forceinline__ void advance() {
    static_assert(count <= S::kPlaces);
    at += count;
    if (at >= S::kPlaces) at -= S::kPlaces, phase ^= 1;
  }
};

// One of the loading warps. It loads every fourth chunk, and mostly waits. All its lanes wait together: then the
// barrier suspends the warp, while a lane that waits alone asks the barrier all the time, and what it executes the
// multipliers cannot.
template <class S>
__device__ __forceinline__ void feed(const ManyArgs& args, ManyPlace<S> place, int tile_rows, int warp, int rank) {
  const int cluster = static_cast<int>(blockIdx.x) / kCluster, clusters = static_cast<int>(gridDim.x) / kCluster;
  int chunk = warp;
  place.at = warp;
#pragma unroll 1
  for (int pair = cluster; pair < args.pairs; pair += clusters, chunk -= args.chunks) {
    const TilePosition tile = position_of(args, pair, rank);
    const int panel = tile.column * kPanels, row = tile.row * tile_rows + rank * (tile_rows / kCluster);
#pragma unroll 1
    for (; chunk < args.chunks; chunk += kLoaders, place.template advance<kLoaders>()) {
      wait_barrier(place.free(), place.phase ^ 1);
      if (threadIdx.x % 32 == 0) {
        expect_bytes(place.full(), kPanels * S::kChunkBytes + S::kRowBytes);
        copy_piece(place.panel(0), args.weights, chunk * (S::kChunkBytes / 8), panel, place.full());
        constexpr std::uint16_t kAll = (1u << kCluster) - 1;
        copy_piece_to_cluster(place.rows() + rank * (S::kRowBytes / kCluster), args.q, chunk * kIntChunk, row,
                              place.full(), kAll);
      }
      __syncwarp();
    }
  }
}

}  // namespace mortise::cuda
