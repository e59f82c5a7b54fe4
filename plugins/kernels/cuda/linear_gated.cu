// A tile is 128 rows of x times some columns of y, of which a block computes gates and ups together. Three kinds of
// warps share a block. One requests x and weights (TMA) into a ring in shared memory. Two warpgroups multiply, 64 rows
// each, and leave their sums in shared memory as bf16. Three warps compute the activation from there and write y, while
// the warpgroups multiply the next tile: done by the warpgroups themselves, it would take a tenth of their time. After
// a block's last tile they do it themselves, since nobody waits for them.
#include "kernels/cuda/linear_gated.hpp"

#include <algorithm>

#include "kernels/cuda/gated.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_stream.hpp"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda {
namespace {

constexpr int kDepth = 64, kStep = 16, kRowBytes = kDepth * 2;  // elements of K in a place of the ring, in a product
constexpr int kGroups = 2, kGroupRows = 64, kTileRows = kGroups * kGroupRows;
constexpr int kUsers = 4 * kGroups, kFinishers = 3;  // warps that multiply, that write y
constexpr int kThreads = (kUsers + 1 + kFinishers) * 32;
// Of a thread that multiplies, and of another one: together the registers that the block has at its launch.
constexpr int kManyRegisters = 216, kFewRegisters = 72;
// The last tile along the rows requests boxes of so many rows, and none behind the last row, because TMA takes longer
// to fill rows with zeros than to load them (64 rows: 81 us in place of 59). Other tiles request all rows at once (256
// rows: 95 us in place of 98).
constexpr int kBoxRows = 32;
constexpr int kSharedBytes = 227 << 10;
constexpr int kBand = 2048;  // rows whose tiles follow each other, so that their x stays in the L2

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
  CUtensorMap boxes;    // the same in boxes of kBoxRows
  CUtensorMap weights;  // [n][k]
  LinearArgs linear;
  Activation activation;
  std::int32_t columns;       // of y
  std::int32_t pieces;        // of K
  std::int32_t row_units;     // clusters of tiles, along the rows
  std::int32_t column_tiles;  // of y
};

struct Tile {
  int row, column;  // its first ones, of y
};
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
// The barriers of a warpgroup's sums: they are there, and they have been read.
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

// Requests what the tiles need, in the order of its use; one warp.
template <class S>
__device__ __forceinline__ void feed(const GatedArgs& args, Place<S> place, int first_unit, int units, int step) {
  const int rank = S::kCluster > 1 ? static_cast<int>(rank_in_cluster()) : 0;
  int rows = 0;  // that the tile requests
  const auto rows_of = [&](const Tile& tile) {
    const int left = static_cast<int>(args.linear.m) - tile.row;
    return min(max((left + kBoxRows - 1) / kBoxRows, 0) * kBoxRows, kTileRows);
  };
  constexpr std::uint16_t kAll = (1u << S::kCluster) - 1;
  const auto request_weights = [&](const Place<S>& to, const Tile& tile, int piece) {
    const int gates = tile.column, ups = args.columns + tile.column, k = piece * kDepth;
    expect_bytes(to.full(), 2 * S::kHalfBytes + rows * kRowBytes);
    if constexpr (S::kCluster > 1) {
      copy_piece_to_cluster(to.weights() + rank * S::kHalfBytes, args.weights, k, rank == 0 ? gates : ups, to.full(),
                            kAll);
    } else {
      copy_piece(to.weights(), args.weights, k, gates, to.full());
      copy_piece(to.weights() + S::kHalfBytes, args.weights, k, ups, to.full());
    }
  };
  const auto request_x = [&](const Place<S>& to, const Tile& tile, int piece) {
    const int k = piece * kDepth;
    if (rows == kTileRows) return copy_piece(to.x(), args.x, k, tile.row, to.full());
    for (int row = 0; row < rows; row += kBoxRows) {
      copy_piece(to.x() + row * kRowBytes, args.boxes, k, tile.row + row, to.full());
    }
  };
  // Weights do not depend on preceding kernels.
  const int early = min(S::kPlaces, args.pieces);
  Tile tile = tile_of<S>(args, first_unit);
  rows = rows_of(tile);
  Place<S> ahead = place;
  for (int piece = 0; piece < early; ++piece, ahead.advance()) {
    if (is_elected()) request_weights(ahead, tile, piece);
  }
  wait_for_kernel_before();
  see_writes();
  for (int piece = 0; piece < early; ++piece, place.advance()) {
    if (is_elected()) request_x(place, tile, piece);
  }
  int piece = early;
#pragma unroll 1
  for (int unit = first_unit; unit < units; unit += step, piece = 0) {
    tile = tile_of<S>(args, unit);
    rows = rows_of(tile);
#pragma unroll 1
    for (; piece < args.pieces; ++piece, place.advance()) {
      wait_barrier(place.free(), place.phase ^ 1);
      if (is_elected()) {
        request_weights(place, tile, piece);
        request_x(place, tile, piece);
      }
    }
  }
}

// Computes `rows` rows of y from their sums, beginning with the tile's first row. Each of `threads` threads takes every
// threads-th piece of eight columns, from `thread` on.
template <class S, Activation kActivation>
__device__ __forceinline__ void finish_by(const GatedArgs& args, std::uint32_t sums, const Tile& tile, int rows,
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
__device__ __forceinline__ void finish(const GatedArgs& args, std::uint32_t sums, const Tile& tile, int rows,
                                       int thread, int threads) {
  switch (args.activation) {
    case Activation::kSilu:
      return finish_by<S, Activation::kSilu>(args, sums, tile, rows, thread, threads);
    case Activation::kGelu:
      return finish_by<S, Activation::kGelu>(args, sums, tile, rows, thread, threads);
    case Activation::kGeluTanh:
      return finish_by<S, Activation::kGeluTanh>(args, sums, tile, rows, thread, threads);
    case Activation::kRelu:
      break;
  }
  finish_by<S, Activation::kRelu>(args, sums, tile, rows, thread, threads);
}

// The sums of a warpgroup's rows of a tile, [64, gates and ups]. One per thread; methods are called by the whole
// warpgroup.
template <class S>
struct Sums {
  float d[S::kEights][4];

  // Multiplies all pieces of a tile. If `exist` is false, the rows are behind the last, and only their places are
  // released.
  __device__ __forceinline__ void compute(const GatedArgs& args, Place<S>& place, int group, bool exist) {
    if (!exist) {
#pragma unroll 1
      for (int piece = 0; piece < args.pieces; ++piece, place.advance()) {
        wait_barrier(place.full(), place.phase);
        release<S>(place.free());
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < S::kEights; ++i) d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0.0f;
    hold(d);
    std::uint32_t before = 0;  // the "free" barrier of the piece that may still be multiplied
#pragma unroll 1
    for (int piece = 0; piece < args.pieces; ++piece) {
      wait_barrier(place.full(), place.phase);
      const std::uint64_t a = matrix(place.x() + group * (kGroupRows * kRowBytes), 0, 8 * kRowBytes);
      const std::uint64_t b = matrix(place.weights(), 0, 8 * kRowBytes);
      begin_products();
#pragma unroll
      for (int k = 0; k < kDepth; k += kStep) row_product(d, moved(a, k * 2), moved(b, k * 2), true);
      commit_products();
      wait_products_but_last();
      if (piece > 0) release<S>(before);
      before = place.free();
      place.advance();
    }
    wait_products();
    hold(d);
    release<S>(before);
  }

  // Writes the sums as bf16 to the warpgroup's rows at `to`. `column`: the first of the tile.
  __device__ __forceinline__ void write(const GatedArgs& args, std::uint32_t to, int column) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    if (args.linear.bias != nullptr) add_bias(args, column + lane % 4 * 2);
    to += (warp * 16 + lane % 16) * S::kPitch + lane / 16 * 16;
#pragma unroll
    for (int i = 0; i < S::kEights; i += 2) {
      const std::uint32_t pairs[4] = {two_bf16(d[i][0], d[i][1]), two_bf16(d[i][2], d[i][3]),
                                      two_bf16(d[i + 1][0], d[i + 1][1]), two_bf16(d[i + 1][2], d[i + 1][3])};
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
      for (int j = 0; j < 4; ++j) d[i][j] = __fadd_rn(d[i][j], __ldg(bias + j % 2));
    }
  }
};

template <class S>
__device__ __forceinline__ void multiply(const GatedArgs& args, Place<S> place, int first_unit, int units, int step) {
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0), group = warp / 4;
  int phase = 0;
#pragma unroll 1
  for (int unit = first_unit; unit < units; unit += step, phase ^= 1) {
    Tile tile = tile_of<S>(args, unit);
    tile.row += group * kGroupRows;
    const bool exist = tile.row < args.linear.m, last = unit + step >= units;
    Sums<S> sums;
    sums.compute(args, place, group, exist);
    const std::uint32_t to = place.memory + S::kSums + group * S::kSumsBytes;
    wait_barrier(sums_free<S>(place.memory, group), phase ^ 1);
    if (exist) sums.write(args, to, tile.column);
    __syncwarp();
    if (last) {
      constexpr int kRows = kGroupRows / 4;  // of a warp
      tile.row += warp % 4 * kRows;
      finish<S>(args, to + warp % 4 * kRows * S::kPitch, tile, kRows, static_cast<int>(threadIdx.x) % 32, 32);
    } else if (threadIdx.x % 32 == 0) {
      arrive(sums_full<S>(place.memory, group));
    }
  }
}

// Computes y of all tiles but the last from the sums.
template <class S>
__device__ __forceinline__ void finish_tiles(const GatedArgs& args, std::uint32_t memory, int first_unit, int units,
                                             int step) {
  const int thread = static_cast<int>(threadIdx.x) - (kUsers + 1) * 32;
  int phase = 0;
#pragma unroll 1
  for (int unit = first_unit; unit + step < units; unit += step, phase ^= 1) {
    Tile tile = tile_of<S>(args, unit);
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group, tile.row += kGroupRows) {
      wait_barrier(sums_full<S>(memory, group), phase);
      finish<S>(args, memory + S::kSums + group * S::kSumsBytes, tile, kGroupRows, thread, kFinishers * 32);
      __syncwarp();
      if (thread % 32 == 0) arrive(sums_free<S>(memory, group));
    }
  }
}

template <class S>
__global__ void __cluster_dims__(S::kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    gated_kernel(const __grid_constant__ GatedArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const Place<S> place = {shared_address(memory)};
  make_barriers(place.memory + S::kBarriers, S::kPlaces, 1);
  make_barriers(place.memory + S::kBarriers + 8 * S::kPlaces, S::kPlaces, S::kCluster * kUsers);
  make_barriers(sums_full<S>(place.memory, 0), kGroups, 4);
  make_barriers(sums_free<S>(place.memory, 0), kGroups, kFinishers);
  publish_barriers();
  if constexpr (S::kCluster > 1) {
    wait_for_cluster();
  } else {
    __syncthreads();
  }
  const int unit = static_cast<int>(blockIdx.x) / S::kCluster, step = static_cast<int>(gridDim.x) / S::kCluster;
  const int units = args.row_units * args.column_tiles;
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);  // tells ptxas that it is uniform
  if (warp >= kUsers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    if (warp == kUsers) {
      feed<S>(args, place, unit, units, step);
    } else {
      wait_for_kernel_before();
      finish_tiles<S>(args, place.memory, unit, units, step);
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
    wait_for_kernel_before();
    multiply<S>(args, place, unit, units, step);
  }
  if constexpr (S::kCluster > 1) wait_for_cluster();  // the other block may still reach this block's shared memory
}

using Kernel = void (*)(GatedArgs);
struct Choice {
  Kernel kernel;
  int columns, cluster, bytes;
};
template <class S>
constexpr Choice choice() {
  return {gated_kernel<S>, S::kColumns, S::kCluster, S::kBytes};
}
constexpr int kSmallColumns = 64;
constexpr Choice kChoices[] = {choice<Shape<56, 1>>(), choice<Shape<64, 1>>(), choice<Shape<112, 1>>(),
                               choice<Shape<112, 2>>(), choice<Shape<128, 2>>()};

std::int64_t rounded_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// The clusters of tiles of a size, along the rows and along the columns.
std::int64_t row_units(const LinearArgs& args, const Choice& size) {
  return rounded_up(args.m, kTileRows * size.cluster);
}
std::int64_t column_tiles(const LinearArgs& args, const Choice& size) {
  return rounded_up(args.n / 2, size.columns);
}

// The tile size with which a block takes the least time. The choice changes no bit.
Choice cheapest(const LinearArgs& args, int num_blocks) {
  // A tile takes as long as its columns of the product and twelve more. Without clusters the L2 gives twice the
  // weights, which costs a twentieth (H200, 28672 columns of 4096, 128 to 8192 rows).
  constexpr std::int64_t kBeside = 12, kAlone = 21, kTogether = 20;
  Choice best = {};
  std::int64_t least = INT64_MAX;
  for (const Choice& size : kChoices) {
    // With one tile along the rows memory is the limit, and all multiprocessors should read.
    if (args.m <= kTileRows && size.columns > kSmallColumns) continue;
    const std::int64_t units = row_units(args, size) * column_tiles(args, size);
    const std::int64_t cost = rounded_up(units, num_blocks / size.cluster) * (2 * size.columns + kBeside) *
                              (size.cluster == 1 ? kAlone : kTogether);
    if (cost < least) least = cost, best = size;
  }
  return best;
}

}  // namespace

bool serves_gated(const LinearArgs& args) {
  const auto aligned = [](const void* data, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 8 == 0;
  };
  if (args.k % kDepth != 0 || args.k == 0 || args.n % 16 != 0 || args.y_type != ElementType::kBf16) return false;
  if (!aligned(args.x, args.x_stride) || !aligned(args.w, args.w_stride) || !aligned(args.y, args.y_stride)) {
    return false;
  }
  if (args.m <= kMaxStreamedRows) return false;
  // The second of two tiles would be half empty: cuBLASLt and then the activation take 80 us for 192 rows in place of
  // 88 (28672 columns of 4096, H200).
  if (args.m > kTileRows && args.m <= kTileRows * 3 / 2) return false;
  int multiprocessors = 0;
  if (num_multiprocessors(multiprocessors) != cudaSuccess) return false;
  return rounded_up(args.m, kTileRows) * rounded_up(args.n / 2, kChoices[0].columns) >= multiprocessors / 2;
}

cudaError_t launch_linear_gated(const LinearArgs& args, Activation activation, cudaStream_t stream) {
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const Choice chosen = cheapest(args, most);
  GatedArgs all = {};
  all.linear = args;
  all.activation = activation;
  all.columns = static_cast<std::int32_t>(args.n / 2);
  all.pieces = static_cast<std::int32_t>(args.k / kDepth);
  all.row_units = static_cast<std::int32_t>(row_units(args, chosen));
  all.column_tiles = static_cast<std::int32_t>(column_tiles(args, chosen));
  cudaError_t error = describe_pieces(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, args.x, args.m, args.k, args.x_stride * 2,
                                      kTileRows, kDepth, all.x);
  if (error != cudaSuccess) return error;
  error = describe_pieces(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, args.x, args.m, args.k, args.x_stride * 2, kBoxRows, kDepth,
                          all.boxes);
  if (error != cudaSuccess) return error;
  error = describe_pieces(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, args.w, args.n, args.k, args.w_stride * 2, chosen.columns,
                          kDepth, all.weights);
  if (error != cudaSuccess) return error;
  const int blocks = chosen.cluster * std::min(all.row_units * all.column_tiles, most / chosen.cluster);
  return launch_overlapped(chosen.kernel, dim3(static_cast<unsigned>(blocks)), kThreads,
                           static_cast<std::size_t>(chosen.bytes), stream, all);
}

cudaError_t prepare_gated_kernels() {
  for (const Choice& one : kChoices) {
    const cudaError_t error = cudaFuncSetAttribute(one.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, one.bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
