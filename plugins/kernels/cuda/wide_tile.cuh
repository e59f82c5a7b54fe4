// plugins/kernels/cuda/wide_tile.cuh: the tiles of products of many rows whose weights are widened to bf16 by other
// warps or kernels (linear_wide, linear_fp8_many). Both operands come from a ring in shared memory; warpgroups
// multiply 64 columns of y each. Two blocks are a cluster: they compute neighbouring columns of the same rows at the
// same time, and each loads half of the rows of x for both. Alone, the L2 would be the limit.
#pragma once

#include <cstdint>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/transposed.cuh"
#include "kernels/cuda/types.hpp"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda {

constexpr int kWideCluster = 2;                         // blocks
constexpr int kWideGroupColumns = 64, kWideDepth = 64;  // of a warpgroup; elements of K in a place of the ring
constexpr int kWideRowBytes = kWideDepth * 2, kWideStep = 16;
constexpr int kWideWarpColumns = 16;

// kScales: 0 none, 1 one for a column, 2 one for a column and 128 elements of K. Then the sums of a group have
// accumulators of their own, which leaves registers for 128 rows of a warpgroup. kGroups: warpgroups that multiply, and
// kColumnGroups of them have columns of their own; the others have other rows of the same columns.
template <int kScalesOf, int kRows, int kNumGroups, int kNumColumnGroups, int kSharedBytes>
struct WideShape {
  static constexpr int kScales = kScalesOf, kTileRows = kRows, kGroups = kNumGroups, kColumnGroups = kNumColumnGroups;
  static constexpr int kGroupRows = kTileRows * kColumnGroups / kGroups;
  static constexpr bool kGrouped = kScales == 2;
  static constexpr bool kWritten = true;  // weights are written by threads, and not by bulk copies
  static constexpr int kColumns = kColumnGroups * kWideGroupColumns, kUsers = kGroups * 4;  // warps that multiply
  static constexpr int kRowsBytes = kTileRows * kWideRowBytes, kWeightBytes = kColumns * kWideRowBytes;
  static constexpr int kPlaceBytes = kRowsBytes + kWeightBytes;
  // Results on their way to memory: some rows of a warp's columns.
  static constexpr int kStageRows = kGroupRows < 128 ? kGroupRows : 128;
  static constexpr int kStageBytes = kStageRows * kWideWarpColumns * 2;
  static constexpr int kFitting = (kSharedBytes - kUsers * kStageBytes - 256) / kPlaceBytes;
  static constexpr int kPlaces = kFitting < 16 ? kFitting : 16;
  static constexpr int kStages = kPlaces * kPlaceBytes, kBarriers = kStages + kUsers * kStageBytes;
  static constexpr int kBytes = kBarriers + 2 * 8 * kPlaces;  // "full" barriers, then "free" barriers
  // Pieces whose products may wait behind those that run: more where the products of a piece are short.
  static constexpr int kPending = kPlaces >= 6 ? 2 : 1;
  static_assert(kPlaces >= 4 && kBytes <= kSharedBytes);
};

// A product and how a launch divides it; computed on the host.
struct WideProduct {
  CUtensorMap rows;  // of x [m][k]
  const float* bias;
  void* y;
  std::int64_t y_stride, m, n;
  ElementType y_type;
  bool whole_lines;         // y is bf16, and 16 bytes of it can be written together
  const std::byte* scales;  // of the first column: f32 [n], or with groups those of the first chunk
  std::int64_t panel_bytes;
  std::int32_t pieces;      // of K, even
  std::int32_t last_steps;  // of the last two pieces: only as many as K has, since zeros would turn a sum of -0 into +0
  std::int32_t row_tiles, column_tiles;
  std::int32_t pairs;  // of tiles, one for each block of a cluster
};

inline bool writes_whole_lines(const void* y, std::int64_t y_stride, ElementType y_type, std::int64_t n) {
  return y_type == ElementType::kBf16 && reinterpret_cast<std::uintptr_t>(y) % 16 == 0 && y_stride % 8 == 0 &&
         n % 8 == 0;
}

// The order of the pairs of tiles: bands of rows, and in each band column after column. So blocks that run at the same
// time share rows and weights, and the rows of a band stay in the L2. The last pair of a row may lack a tile: its block
// computes the tile before once more and does not write it.
struct WidePosition {
  int row, column;  // in tiles
  bool exists;
};
template <class S>
__device__ __forceinline__ WidePosition position_of(const WideProduct& args, int pair, int rank) {
  constexpr int kBand = 2048 / S::kTileRows;
  const int column_pairs = args.pairs / args.row_tiles, of_band = kBand * column_pairs;
  const int first = pair / of_band * kBand, rows = min(kBand, args.row_tiles - first), i = pair % of_band;
  const int column = kWideCluster * (i / rows) + rank;
  return {first + i % rows, min(column, args.column_tiles - 1), column < args.column_tiles};
}

// A place in the ring. `phase` is 0 after an even number of passes over the ring, otherwise 1: it is the phase of the
// place's barriers.
template <class S>
struct WidePlace {
  std::uint32_t memory;
  int at = 0, phase = 0;
  __device__ __forceinline__ std::uint32_t rows() const { return memory + at * S::kPlaceBytes; }
  __device__ __forceinline__ std::uint32_t weights() const { return rows() + S::kRowsBytes; }
  __device__ __forceinline__ std::uint32_t full() const { return memory + S::kBarriers + 8 * at; }
  __device__ __forceinline__ std::uint32_t free() const { return memory + S::kBarriers + 8 * (S::kPlaces + at); }
  __device__ __forceinline__ void advance() {
    if (++at == S::kPlaces) at = 0, phase ^= 1;
  }
};

// A warpgroup's tile of y: 64 columns times kTileRows rows. One per thread; methods are called by the whole warpgroup.
// Invariant: place_ is the place of the next piece to take.
template <class S>
class WideTile {
  static constexpr int kEights = S::kGroupRows / 8, kSteps = kWideDepth / kWideStep;

 public:
  __device__ WideTile(const WideProduct& args, WidePlace<S>& place, const WidePosition& tile)
      : args_(args),
        place_(place),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        exists_(tile.exists),
        row_(tile.row * S::kTileRows + warp_ / (4 * S::kColumnGroups) * S::kGroupRows),
        first_column_(tile.column * S::kColumns + warp_ % (4 * S::kColumnGroups) * kWideWarpColumns) {}

  __device__ __forceinline__ void compute() {
    if constexpr (S::kGrouped) {
      sum_groups();
    } else {
      sum_row();
    }
    if (!exists_) return;
    args_.whole_lines ? write_lines() : write_elements();
  }

 private:
  __device__ __forceinline__ int column_group() const { return S::kColumnGroups == 1 ? 0 : warp_ / 4; }
  __device__ __forceinline__ int row_group() const { return S::kColumnGroups == S::kGroups ? 0 : warp_ / 4; }
  // Waits for the next piece and returns its matrices.
  struct Operands {
    std::uint64_t a, b;
  };
  __device__ __forceinline__ Operands next_operands() const {
    wait_barrier(place_.full(), place_.phase);
    // The fence is here and not in the threads that wrote, where it would also wait for their next loads.
    if constexpr (S::kWritten) publish_writes();
    return {matrix(place_.weights() + column_group() * (kWideGroupColumns * kWideRowBytes), 0, 1024),
            matrix(place_.rows() + row_group() * (S::kGroupRows * kWideRowBytes), 0, 1024)};
  }
  // Starts the products of the next piece. `adds`: to d_.
  __device__ __forceinline__ void multiply(bool adds) {
    const Operands piece = next_operands();
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      row_product(d_, moved(piece.a, step * kWideStep * 2), moved(piece.b, step * kWideStep * 2), adds || step > 0);
    }
    commit_products();
  }
  // Multiplies the first `steps` steps of the next piece and adds them to d_.
  __device__ __forceinline__ void multiply_some(int steps) {
    const Operands piece = next_operands();
#pragma unroll 1
    for (int step = 0; step < min(steps, kSteps); ++step) {
      begin_products();
      row_product(d_, moved(piece.a, step * kWideStep * 2), moved(piece.b, step * kWideStep * 2), true);
      commit_products();
      wait_products();
    }
  }
  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    __syncwarp();
    if (lane_ < kWideCluster) arrive_in_cluster(barrier, lane_);
  }

  __device__ __forceinline__ void sum_row() {
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) d_[i][j] = 0.0f;
    }
    hold(d_);
    constexpr int kLast = S::kScales == 0 ? 2 : 0;  // pieces that may not have all steps
    std::uint32_t started[S::kPending] = {};        // "free" barriers of pieces that may still be multiplied
    const auto finish = [&](bool there) {
      if (there) release(started[0]);
#pragma unroll
      for (int i = 0; i + 1 < S::kPending; ++i) started[i] = started[i + 1];
      started[S::kPending - 1] = place_.free();
      place_.advance();
    };
#pragma unroll 1
    for (int piece = 0; piece < args_.pieces - kLast; ++piece) {
      multiply(true);
      wait_products_but<S::kPending>();
      finish(piece >= S::kPending);
    }
    if constexpr (kLast > 0) {
#pragma unroll 1
      for (int piece = args_.pieces - kLast; piece < args_.pieces; ++piece) {
        multiply_some(args_.last_steps - (piece - args_.pieces + kLast) * kSteps);
        wait_products();
        finish(piece >= S::kPending);
      }
    }
    wait_products();
    hold(d_);
#pragma unroll
    for (int i = 0; i < S::kPending; ++i) release(started[i]);  // there are two pieces at least
    if constexpr (S::kScales == 1) {
      const float* const scales = reinterpret_cast<const float*>(args_.scales) + first_column_ + lane_ / 4;
      const float scale[2] = {__ldg(scales), __ldg(scales + 8)};
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) d_[i][j] = __fmaf_rn(d_[i][j], scale[j / 2], 0.0f);
      }
    }
  }

  __device__ __forceinline__ void sum_groups() {
    const std::byte* scales = args_.scales + first_column_ / 8 * args_.panel_bytes + lane_ / 4 * 4;
    const auto scale_of = [&](int panel) {
      return __ldg(reinterpret_cast<const float*>(scales + panel * args_.panel_bytes));
    };
#pragma unroll 1
    for (int piece = 0; piece < args_.pieces; piece += 2, scales += fp8_chunk_bytes(true)) {
      const float scale[2] = {scale_of(0), scale_of(1)};
      multiply(false);
      const std::uint32_t first = place_.free();
      place_.advance();
      multiply(true);
      wait_products_but<1>();
      release(first);
      wait_products();
      hold(d_);
      release(place_.free());
      place_.advance();
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) acc_[i][j] = __fmaf_rn(d_[i][j], scale[j / 2], acc_[i][j]);
      }
    }
  }

  __device__ __forceinline__ float sum(int i, int j) const {
    return S::kGrouped ? acc_[S::kGrouped ? i : 0][j] : d_[i][j];
  }

  // Lanes hold single elements of a column's rows; stmatrix transposes them into the warp's stage.
  __device__ __forceinline__ void write_lines() const {
    const int n = first_column_ + lane_ / 4;
    const float bias[2] = {args_.bias == nullptr || n >= args_.n ? 0.0f : args_.bias[n],
                           args_.bias == nullptr || n + 8 >= args_.n ? 0.0f : args_.bias[n + 8]};
    const auto pair = [&](int i, int half) {
      float low = sum(i, 2 * half), high = sum(i, 2 * half + 1);
      if (args_.bias != nullptr) low = __fadd_rn(low, bias[half]), high = __fadd_rn(high, bias[half]);
      return two_bf16(low, high);
    };
    const std::uint32_t stage = place_.memory + S::kStages + warp_ * S::kStageBytes;
    const std::uint32_t to = stage + (lane_ / 16 * 8 + lane_ % 8) * (kWideWarpColumns * 2) + lane_ / 8 % 2 * 16;
    const int column = first_column_ + lane_ % 2 * 8;
    auto* const y = static_cast<Bf16*>(args_.y);
#pragma unroll
    for (int part = 0; part < S::kGroupRows / S::kStageRows; ++part) {
      if (row_ + part * S::kStageRows >= args_.m) break;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < S::kStageRows / 8; i += 2) {
        const int at = part * (S::kStageRows / 8) + i;
        const std::uint32_t pairs[4] = {pair(at, 0), pair(at, 1), pair(at + 1, 0), pair(at + 1, 1)};
        store_transposed(to + i * 8 * (kWideWarpColumns * 2), pairs);
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < S::kStageRows / 16; ++i) {
        const std::int64_t m = row_ + part * S::kStageRows + i * 16 + lane_ / 2;
        if (m >= args_.m || column >= args_.n) continue;
        *reinterpret_cast<uint4*>(y + m * args_.y_stride + column) =
            with_canonical_nans(load_sixteen(stage + i * 512 + lane_ * 16));
      }
    }
  }

  __device__ __forceinline__ void write_elements() const {
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const std::int64_t m = row_ + 8 * i + lane_ % 4 * 2;
      if (m >= args_.m) break;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t n = first_column_ + lane_ / 4 + j / 2 * 8;
        if (n >= args_.n || m + j % 2 >= args_.m) continue;
        float y = sum(i, j);
        if (args_.bias != nullptr) y = __fadd_rn(y, args_.bias[n]);
        const std::int64_t at = (m + j % 2) * args_.y_stride + n;
        if (args_.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(args_.y)[at], y);
        } else {
          put(static_cast<float*>(args_.y)[at], y);
        }
      }
    }
  }

  const WideProduct& args_;
  WidePlace<S>& place_;
  const int warp_, lane_;
  const bool exists_;
  const int row_, first_column_;  // first_column_: of the warp
  float d_[kEights][4];           // sums of the group, or of the row
  float acc_[S::kGrouped ? kEights : 1][4] = {};
};

}  // namespace mortise::cuda
