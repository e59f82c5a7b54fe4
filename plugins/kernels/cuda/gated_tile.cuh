// plugins/kernels/cuda/gated_tile.cuh: the tiles of linear_gated.cu. A tile is 128 rows of x times some columns of y,
// of which a block computes gates and ups together. Three kinds of warps share a block:
//   one requests x and weights (TMA) into a ring in shared memory;
//   two warpgroups multiply, 64 rows each, and leave their sums in shared memory as bf16;
//   three warps compute the activation from there and write y, while the warpgroups multiply the next tile.
// If the warpgroups computed the activation, it would take a tenth of their time. They do so only for a block's last
// tile, when they have nothing left to multiply.
#pragma once

#include <cstdint>

#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/gated.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_mma.hpp"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda::gated {

constexpr int kDepth = 64, kStep = 16, kRowBytes = kDepth * 2;  // elements of K in a place of the ring, in a product
constexpr int kGroups = 2, kGroupRows = 64, kTileRows = kGroups * kGroupRows;
constexpr int kUsers = 4 * kGroups, kActivatingWarps = 3;  // warps that multiply, that write y
constexpr int kThreads = (kUsers + 1 + kActivatingWarps) * 32;
// Registers of a thread that multiplies, and of another one. Their total must not exceed the registers of the block at
// its launch, or the threads would wait forever.
constexpr int kManyRegisters = 216, kFewRegisters = 72, kLaunchRegisters = 65536 / kThreads / 8 * 8;
static_assert(kUsers * kManyRegisters + (kActivatingWarps + 1) * kFewRegisters <= kThreads / 32 * kLaunchRegisters);
// The last row tile requests x in boxes of 32 rows, only those that have rows of x, because TMA takes longer to fill a
// row with zeros than to load it (H200, 28672 columns of 4096: 64 rows take 81 us with one box and 58 with boxes).
// Tiles that are full use one box, which is faster (256 rows: 89 to 95 us in place of 97 to 102).
constexpr int kBoxRows = 32;
constexpr int kSharedBytes = 227 << 10;
constexpr int kBand = 2048;  // rows

// kColumns: of y in a tile. kCluster: blocks that compute the same columns of neighbouring rows. With two, each block
// loads half of the weights for both.
template <int kColumnsOf, int kClusterOf>
struct Shape {
  static constexpr int kColumns = kColumnsOf, kCluster = kClusterOf;
  static constexpr int kEights = 2 * kColumns / 8;  // of gates and ups
  static constexpr int kXBytes = kTileRows * kRowBytes, kHalfBytes = kColumns * kRowBytes;
  static constexpr int kPlaceBytes = kXBytes + 2 * kHalfBytes;
  // Sums of a warpgroup: gates, then ups, with a padding against bank conflicts.
  static constexpr int kPitch = 2 * kColumns * 2 + 16, kSumsBytes = kGroupRows * kPitch;
  static constexpr int kPlaces = (kSharedBytes - kGroups * kSumsBytes - 256) / kPlaceBytes;
  static constexpr int kSums = kPlaces * kPlaceBytes, kBarriers = kSums + kGroups * kSumsBytes;
  static constexpr int kBytes = kBarriers + (2 * kPlaces + 2 * kGroups) * 8;
  static_assert(kPlaces >= 3 && kBarriers % 8 == 0 && kBytes <= kSharedBytes);
};

// A product and how a launch divides it; computed on the host.
struct GatedArgs {
  CUtensorMap x;        // [m][k], in boxes of kTileRows
  CUtensorMap x_boxes;  // the same in boxes of kBoxRows
  CUtensorMap weights;  // [n][k]
  LinearArgs linear;
  Activation activation;
  std::int32_t columns;       // of y
  std::int32_t pieces;        // of K
  std::int32_t row_units;     // see tile_of
  std::int32_t column_tiles;  // of y
};

struct Tile {
  int row, column;  // its first ones, of y
};
// Returns this block's tile of a unit. A unit is what a cluster computes together: kCluster neighbouring row tiles of
// the same columns. Units go band by band of kBand rows, and in a band column after column, so that blocks which run at
// the same time share weights, and the rows of a band stay in the L2. A row tile behind the last has no rows.
template <class S>
__device__ __forceinline__ Tile tile_of(const GatedArgs& args, int unit) {
  constexpr int kBandUnits = kBand / (kTileRows * S::kCluster);
  const int of_band = kBandUnits * args.column_tiles, first = unit / of_band * kBandUnits;
  const int rows = min(kBandUnits, args.row_units - first), i = unit % of_band;
  const int row = (first + i % rows) * S::kCluster + (S::kCluster > 1 ? static_cast<int>(rank_in_cluster()) : 0);
  return {row * kTileRows, i / rows * S::kColumns};
}

// A place in the ring. `phase` is 0 after an even number of passes over the ring, otherwise 1: it is the phase of the
// place's barriers.
template <class S>
struct Place {
  std::uint32_t memory;
  int at = 0, phase = 0;
  __device__ __forceinline__ std::uint32_t x() const { return memory + at * S::kPlaceBytes; }
  __device__ __forceinline__ std::uint32_t weights() const { return x() + S::kXBytes; }
  __device__ __forceinline__ std::uint32_t full() const { return memory + S::kBarriers + 8 * at; }
  __device__ __forceinline__ std::uint32_t free() const { return full() + 8 * S::kPlaces; }
  __device__ __forceinline__ void advance() {
    if (++at == S::kPlaces) at = 0, phase ^= 1;
  }
};
// The barriers of a warpgroup's sums. sums_full: the warpgroup has written them. sums_free: the activating warps have
// read them.
template <class S>
__device__ __forceinline__ std::uint32_t sums_full(std::uint32_t memory, int group) {
  return memory + S::kBarriers + 8 * (2 * S::kPlaces + group);
}
template <class S>
__device__ __forceinline__ std::uint32_t sums_free(std::uint32_t memory, int group) {
  return sums_full<S>(memory, kGroups + group);
}

// Tells those who fill a place, in each block of the cluster, that this warp needs it no longer.
template <class S>
__device__ __forceinline__ void release(std::uint32_t barrier) {
  __syncwarp();
  if constexpr (S::kCluster > 1) {
    if (threadIdx.x % 32 < S::kCluster) arrive_in_cluster(barrier, threadIdx.x % 32);
  } else {
    if (threadIdx.x % 32 == 0) arrive(barrier);
  }
}

// Requests what the tiles need, in the order of its use. One per thread of the warp that does it.
template <class S>
class Feeder {
 public:
  __device__ Feeder(const GatedArgs& args, const Place<S>& place)
      : args_(args), place_(place), rank_(S::kCluster > 1 ? static_cast<int>(rank_in_cluster()) : 0) {}

  __device__ __forceinline__ void feed(int first_unit, int units, int step) {
    // Weights do not depend on preceding kernels.
    const int early = min(S::kPlaces, args_.pieces);
    begin_tile(first_unit);
    Place<S> place = place_;
    for (int piece = 0; piece < early; ++piece, place.advance()) {
      if (is_elected()) request_weights(place, piece);
    }
    wait_for_kernel_before();
    see_writes();
    for (int piece = 0; piece < early; ++piece, place_.advance()) {
      if (is_elected()) request_x(place_, piece);
    }
    int piece = early;
#pragma unroll 1
    for (int unit = first_unit; unit < units; unit += step, piece = 0) {
      begin_tile(unit);
#pragma unroll 1
      for (; piece < args_.pieces; ++piece, place_.advance()) {
        wait_barrier(place_.free(), place_.phase ^ 1);
        if (is_elected()) {
          request_weights(place_, piece);
          request_x(place_, piece);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void begin_tile(int unit) {
    tile_ = tile_of<S>(args_, unit);
    const int left = max(static_cast<int>(args_.linear.m) - tile_.row, 0);
    rows_ = min((left + kBoxRows - 1) / kBoxRows * kBoxRows, kTileRows);
  }
  // Also tells the barrier of all bytes of the piece.
  __device__ __forceinline__ void request_weights(const Place<S>& to, int piece) const {
    const int gates = tile_.column, ups = args_.columns + tile_.column, k = piece * kDepth;
    expect_bytes(to.full(), 2 * S::kHalfBytes + rows_ * kRowBytes);
    if constexpr (S::kCluster > 1) {
      constexpr std::uint16_t kAll = (1u << S::kCluster) - 1;
      copy_piece_to_cluster(to.weights() + rank_ * S::kHalfBytes, args_.weights, k, rank_ == 0 ? gates : ups, to.full(),
                            kAll);
    } else {
      copy_piece(to.weights(), args_.weights, k, gates, to.full());
      copy_piece(to.weights() + S::kHalfBytes, args_.weights, k, ups, to.full());
    }
  }
  __device__ __forceinline__ void request_x(const Place<S>& to, int piece) const {
    const int k = piece * kDepth;
    if (rows_ == kTileRows) return copy_piece(to.x(), args_.x, k, tile_.row, to.full());
    for (int row = 0; row < rows_; row += kBoxRows) {
      copy_piece(to.x() + row * kRowBytes, args_.x_boxes, k, tile_.row + row, to.full());
    }
  }

  const GatedArgs& args_;
  Place<S> place_;  // the next
  const int rank_;
  Tile tile_{};
  int rows_ = 0;  // of x, that the tile requests
};

// Computes `rows` rows of y from their sums, beginning with the tile's first row. Each of `threads` threads takes every
// threads-th piece of eight columns, from `thread` on.
template <class S, Activation kActivation>
__device__ __forceinline__ void activate_as(const GatedArgs& args, std::uint32_t sums, const Tile& tile, int rows,
                                            int thread, int threads) {
  constexpr int kPieces = S::kColumns / kVector;
  auto* const y = static_cast<Bf16*>(args.linear.y);
#pragma unroll 1
  for (int i = thread; i < rows * kPieces; i += threads) {
    const int row = i / kPieces, column = i % kPieces * kVector;
    const std::int64_t m = tile.row + row, n = tile.column + column;
    if (m >= args.linear.m || n >= args.columns) continue;
    const std::uint32_t at = sums + row * S::kPitch + column * 2;
    Vector gate, up;
    unpack(load_sixteen(at), gate.x);
    unpack(load_sixteen(at + S::kColumns * 2), up.x);
    Gated<Bf16, kActivation>::apply(gate, up);
    store_vector(y + m * args.linear.y_stride + n, gate);
  }
}

template <class S>
__device__ __forceinline__ void activate_rows(const GatedArgs& args, std::uint32_t sums, const Tile& tile, int rows,
                                              int thread, int threads) {
  switch (args.activation) {
    case Activation::kSilu:
      return activate_as<S, Activation::kSilu>(args, sums, tile, rows, thread, threads);
    case Activation::kGelu:
      return activate_as<S, Activation::kGelu>(args, sums, tile, rows, thread, threads);
    case Activation::kGeluTanh:
      return activate_as<S, Activation::kGeluTanh>(args, sums, tile, rows, thread, threads);
    case Activation::kRelu:
      break;
  }
  activate_as<S, Activation::kRelu>(args, sums, tile, rows, thread, threads);
}

// The sums of a warpgroup's rows of a tile, [64, gates and ups]. One per thread; methods are called by the whole
// warpgroup.
template <class S>
class Sums {
 public:
  // Multiplies all pieces of the tile.
  __device__ __forceinline__ void multiply(const GatedArgs& args, Place<S>& place, int group) {
#pragma unroll
    for (int i = 0; i < S::kEights; ++i) d_[i][0] = d_[i][1] = d_[i][2] = d_[i][3] = 0.0f;
    hold(d_);
    std::uint32_t before = 0;  // the "free" barrier of the piece that may still be multiplied
#pragma unroll 1
    for (int piece = 0; piece < args.pieces; ++piece) {
      wait_barrier(place.full(), place.phase);
      const std::uint64_t a = matrix(place.x() + group * (kGroupRows * kRowBytes), 0, 8 * kRowBytes);
      const std::uint64_t b = matrix(place.weights(), 0, 8 * kRowBytes);
      begin_products();
#pragma unroll
      for (int k = 0; k < kDepth; k += kStep) row_product(d_, moved(a, k * 2), moved(b, k * 2), true);
      commit_products();
      wait_products_but_last();
      if (piece > 0) release<S>(before);
      before = place.free();
      place.advance();
    }
    wait_products();
    hold(d_);
    release<S>(before);
  }

  // Adds the bias and writes the sums as bf16 to the warpgroup's rows at `to`. `column`: the first of the tile.
  __device__ __forceinline__ void write(const GatedArgs& args, std::uint32_t to, int column) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    if (args.linear.bias != nullptr) add_bias(args, column + lane % 4 * 2);
    to += (warp * 16 + lane % 16) * S::kPitch + lane / 16 * 16;
#pragma unroll
    for (int i = 0; i < S::kEights; i += 2) {
      const std::uint32_t pairs[4] = {two_bf16(d_[i][0], d_[i][1]), two_bf16(d_[i][2], d_[i][3]),
                                      two_bf16(d_[i + 1][0], d_[i + 1][1]), two_bf16(d_[i + 1][2], d_[i + 1][3])};
      store_matrices(to + i * 16, pairs);
    }
  }

 private:
  __device__ __forceinline__ void add_bias(const GatedArgs& args, int column) {
#pragma unroll
    for (int i = 0; i < S::kEights; ++i) {
      const bool up = i >= S::kEights / 2;
      const int n = column + (up ? i - S::kEights / 2 : i) * 8;
      if (n >= args.columns) continue;
      const float* const bias = args.linear.bias + (up ? args.columns : 0) + n;
#pragma unroll
      for (int j = 0; j < 4; ++j) d_[i][j] = __fadd_rn(d_[i][j], __ldg(bias + j % 2));
    }
  }

  float d_[S::kEights][4];
};

// A warpgroup without rows: takes part in the ring, since other warps wait until all have released a place.
template <class S>
__device__ __forceinline__ void pass_tile(const GatedArgs& args, Place<S>& place) {
#pragma unroll 1
  for (int piece = 0; piece < args.pieces; ++piece, place.advance()) {
    wait_barrier(place.full(), place.phase);
    release<S>(place.free());
  }
}

template <class S>
__device__ __forceinline__ void multiply_tiles(const GatedArgs& args, Place<S> place, int first_unit, int units,
                                               int step) {
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0), group = warp / 4;
  const std::uint32_t to = place.memory + S::kSums + group * S::kSumsBytes;
  int phase = 0;
#pragma unroll 1
  for (int unit = first_unit; unit < units; unit += step, phase ^= 1) {
    Tile tile = tile_of<S>(args, unit);
    tile.row += group * kGroupRows;
    const bool has_rows = tile.row < args.linear.m, is_last = unit + step >= units;
    if (has_rows) {
      Sums<S> sums;
      sums.multiply(args, place, group);
      wait_barrier(sums_free<S>(place.memory, group), phase ^ 1);
      sums.write(args, to, tile.column);
    } else {
      pass_tile(args, place);
      wait_barrier(sums_free<S>(place.memory, group), phase ^ 1);
    }
    __syncwarp();
    if (!is_last) {
      if (threadIdx.x % 32 == 0) arrive(sums_full<S>(place.memory, group));
    } else if (has_rows) {
      constexpr int kRows = kGroupRows / 4;  // of a warp
      tile.row += warp % 4 * kRows;
      activate_rows<S>(args, to + warp % 4 * kRows * S::kPitch, tile, kRows, static_cast<int>(threadIdx.x) % 32, 32);
    }
  }
}

// Computes y of all tiles but the last from the sums.
template <class S>
__device__ __forceinline__ void activate_tiles(const GatedArgs& args, std::uint32_t memory, int first_unit, int units,
                                               int step) {
  const int thread = static_cast<int>(threadIdx.x) - (kUsers + 1) * 32;
  int phase = 0;
#pragma unroll 1
  for (int unit = first_unit; unit + step < units; unit += step, phase ^= 1) {
    Tile tile = tile_of<S>(args, unit);
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group, tile.row += kGroupRows) {
      wait_barrier(sums_full<S>(memory, group), phase);
      if (tile.row < args.linear.m) {
        activate_rows<S>(args, memory + S::kSums + group * S::kSumsBytes, tile, kGroupRows, thread,
                         kActivatingWarps * 32);
      }
      __syncwarp();
      if (thread % 32 == 0) arrive(sums_free<S>(memory, group));
    }
  }
}

}  // namespace mortise::cuda::gated
