// Weights are the a operand of the instruction (64 columns of y per warpgroup). They come from registers, where they
// are widened. Rows of x are the b operand. A block computes tile after tile. One warpgroup loads chunks of weights and
// x into a ring in shared memory; one or two warpgroups multiply, and widen the fragments of the next chunk meanwhile.
//
// Two blocks are a cluster. They compute neighbouring tiles of the same rows at the same time, and each loads half of x
// for both: alone, the L2 would be the limit.
#include "kernels/cuda/linear_fp8_wide.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarpgroup = 128, kWarpgroupColumns = 64, kWarpgroupPanels = kWarpgroupColumns / kFp8Panel;
constexpr int kSharedBytes = 200 << 10;
constexpr int kMaxPlaces = 16;
constexpr int kCluster = 2;  // blocks
constexpr std::int64_t kRowsOfLargeTiles = 2048;

// Without groups the sums of a row stay in one accumulator to the end, which leaves registers for 256 rows.
template <bool kGrouped, int kTileRows, int kNumGroups>
struct Shape {
  static constexpr int kGroups = kNumGroups;  // warpgroups that multiply
  static constexpr int kThreads = (kGroups + 1) * kWarpgroup;
  static constexpr int kPanels = kGroups * kWarpgroupPanels;
  static constexpr int kHalfBytes = kTileRows * kFp8Swizzled * 2;  // of x, for half a chunk
  static constexpr int kRowBytes = 2 * kHalfBytes;
  static constexpr int kChunkBytes = fp8_chunk_bytes(kGrouped);
  // Rows of x begin at multiples of 1024 bytes, as the swizzle of TMA requires.
  static constexpr int kPlaceBytes = (kRowBytes + kPanels * kChunkBytes + 1023) / 1024 * 1024;
  static constexpr int kPlaces = kSharedBytes / kPlaceBytes < kMaxPlaces ? kSharedBytes / kPlaceBytes : kMaxPlaces;
  static_assert(kPlaces >= 2 && kPanels * kFp8Panel <= kFp8Columns);
  static constexpr int kBarriers = kPlaces * kPlaceBytes;  // "full" barriers, then "free" barriers
  static constexpr int kBytes = kBarriers + 2 * 8 * kPlaces;
  static constexpr int kUsers = kGroups * 4;  // warps that release a place, in each block
  // Registers of a loading thread and of a multiplying thread, if several warpgroups multiply. Their total must not
  // exceed the registers of the block at its launch, or the threads would wait forever.
  static constexpr int kFewRegisters = 40, kManyRegisters = 232;
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static_assert(kGroups == 1 || kFewRegisters + kGroups * kManyRegisters <= (kGroups + 1) * kLaunchRegisters);
};

struct WideArgs {
  CUtensorMap rows;  // [m][k]
  LinearFp8Args linear;
  std::int64_t panel_bytes;
  const float* scales;  // with one scale a row
  std::int32_t chunks;  // in a panel
  std::int32_t row_tiles, column_tiles;
  std::int32_t pairs;  // of tiles, one for each block of a cluster
};

// The order of the pairs of tiles: bands of rows, and in each band column after column. So blocks that run at the same
// time share rows and weights, and the rows of a band stay in the L2. The last pair of a row may lack a tile: its block
// computes the tile before once more and does not write it.
struct TilePosition {
  int row, column;  // in tiles
  bool exists;
};
__device__ __forceinline__ TilePosition position_of(const WideArgs& args, int pair, int rank) {
  constexpr int kBand = 8;
  const int column_pairs = args.pairs / args.row_tiles, of_band = kBand * column_pairs;
  const int first = pair / of_band * kBand, rows = min(kBand, args.row_tiles - first), i = pair % of_band;
  const int column = kCluster * (i / rows) + rank;
  return {first + i % rows, min(column, args.column_tiles - 1), column < args.column_tiles};
}

// A place in the ring of shared-memory buffers. `phase` is 0 after an even number of passes over the ring, otherwise 1:
// it is the phase of the place's barriers.
template <class S>
struct Place {
  std::uint32_t memory;
  int at = 0, phase = 0;
  __device__ __forceinline__ std::uint32_t rows() const { return memory + at * S::kPlaceBytes; }
  __device__ __forceinline__ std::uint32_t panel(int i) const { return rows() + S::kRowBytes + i * S::kChunkBytes; }
  __device__ __forceinline__ std::uint32_t full() const { return memory + S::kBarriers + 8 * at; }
  __device__ __forceinline__ std::uint32_t free() const { return memory + S::kBarriers + 8 * (S::kPlaces + at); }
  __device__ __forceinline__ void advance() {
    if (++at == S::kPlaces) at = 0, phase ^= 1;
  }
};

// One of the four loading warps. It loads a quarter of the panels; the first warp also loads rows of x.
template <class S>
__device__ __forceinline__ void feed(const WideArgs& args, Place<S> place, int warp, int tile_rows, int rank) {
  const std::byte* const first = args.linear.w + args.linear.first_column / kFp8Panel * args.panel_bytes;
  const int cluster = static_cast<int>(blockIdx.x) / kCluster, clusters = static_cast<int>(gridDim.x) / kCluster;
#pragma unroll 1
  for (int pair = cluster; pair < args.pairs; pair += clusters) {
    const TilePosition position = position_of(args, pair, rank);
    const int panel = position.column * S::kPanels + warp;
    const int row = position.row * tile_rows + rank * (tile_rows / kCluster);
    const std::uint32_t to = rank * (S::kHalfBytes / kCluster);
#pragma unroll 1
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
      wait_barrier(place.free(), place.phase ^ 1);
      expect_bytes(place.full(), S::kPanels / 4 * S::kChunkBytes + (warp == 0 ? S::kRowBytes : 0));
#pragma unroll
      for (int i = 0; i < S::kPanels; i += 4) {
        copy_bulk(place.panel(i + warp),
                  first + (panel + i) * args.panel_bytes + static_cast<std::int64_t>(chunk) * S::kChunkBytes,
                  S::kChunkBytes, place.full());
      }
      if (warp == 0) {
        constexpr std::uint16_t kAll = (1u << kCluster) - 1;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          copy_piece_to_cluster(place.rows() + half * S::kHalfBytes + to, args.rows,
                                chunk * kFp8Chunk + half * kFp8Swizzled, row, place.full(), kAll);
        }
      }
      place.advance();
    }
  }
}

// A lane's part of a chunk: the a operand of each step, and the scales of its rows of w, lane / 4 and lane / 4 + 8.
template <bool kGrouped>
struct Fragments {
  std::uint32_t a[kFp8Steps][4];
  float scale[2];

  // The warp's sixteen rows of w are two panels.
  __device__ __forceinline__ void load(std::uint32_t panel) {
    constexpr int kChunkBytes = fp8_chunk_bytes(kGrouped);
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 v = load_sixteen(panel + j * kChunkBytes + half * 512 + lane * 16);
        const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) widen_fp8(words[i], a[4 * half + i][j], a[4 * half + i][j + 2]);
      }
      if constexpr (kGrouped) scale[j] = load_scale(panel + j * kChunkBytes + kFp8ValueBytes + lane / 4 * 4);
    }
  }
};

// A warpgroup's tile of y: 64 columns times kTileRows rows. One per thread; methods are called by the whole warpgroup.
// Invariant: place_ is the place of the next chunk to take.
template <bool kGrouped, int kTileRows, int kGroups>
class Tile {
  using S = Shape<kGrouped, kTileRows, kGroups>;
  static constexpr int kEights = kTileRows / 8;

 public:
  __device__ Tile(const WideArgs& args, Place<S>& place, const TilePosition& tile)
      : args_(args),
        place_(place),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        exists_(tile.exists),
        row_(tile.row * kTileRows),
        column_((tile.column * S::kPanels + warp_ * 2) * kFp8Panel + lane_ / 4) {}

  __device__ __forceinline__ void compute() {
    Fragments<kGrouped> fragments[2];
    fetch(fragments[0]);
#pragma unroll 1
    for (int chunk = 0; chunk < args_.chunks; chunk += 2) {
      multiply(fragments[0], fragments[1], chunk);
      if (chunk + 1 < args_.chunks) multiply(fragments[1], fragments[0], chunk + 1);
    }
    if constexpr (!kGrouped) {
      const float* const scales = args_.scales + args_.linear.first_column + column_;
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) d_[i][j] = __fmaf_rn(d_[i][j], scales[j / 2 * 8], 0.0f);
      }
    }
    write();
  }

 private:
  // Waits for the next place and loads its fragments.
  __device__ __forceinline__ void fetch(Fragments<kGrouped>& fragments) {
    wait_barrier(place_.full(), place_.phase);
    fragments.load(place_.panel(warp_ * 2));
    rows_ = place_.rows();
    free_ = place_.free();
    place_.advance();
  }

  // Multiplies chunk number `chunk`, whose fragments are `here`, and meanwhile fetches the following chunk into `next`.
  // Without groups, all but the first chunk are added to the sums of the chunks before.
  __device__ __forceinline__ void multiply(const Fragments<kGrouped>& here, Fragments<kGrouped>& next, int chunk) {
    const std::uint64_t b = matrix(rows_, 0, 1024);
    const std::uint32_t mine = free_;
    begin_products();
#pragma unroll
    for (int step = 0; step < kFp8Steps; ++step) {
      row_product(d_, here.a[step], moved(b, step / 4 * S::kHalfBytes + step % 4 * kFp8Step * 2),
                  step > 0 || (!kGrouped && chunk > 0));
    }
    commit_products();
    if (chunk + 1 < args_.chunks) fetch(next);
    wait_products();
    hold(d_);
    __syncwarp();
    if (lane_ < kCluster) arrive_in_cluster(mine, lane_);
    if constexpr (kGrouped) {
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) acc_[i][j] = __fmaf_rn(d_[i][j], here.scale[j / 2], acc_[i][j]);
      }
    }
  }

  __device__ __forceinline__ void write() const {
    const LinearFp8Args& linear = args_.linear;
    if (!exists_) return;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const std::int64_t m = row_ + 8 * i + lane_ % 4 * 2;
      if (m >= linear.m) break;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t n = column_ + j / 2 * 8;
        if (n >= linear.n || m + j % 2 >= linear.m) continue;
        float y = kGrouped ? acc_[kGrouped ? i : 0][j] : d_[i][j];
        if (linear.bias != nullptr) y = __fadd_rn(y, linear.bias[n]);
        const std::int64_t at = (m + j % 2) * linear.y_stride + n;
        if (linear.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(linear.y)[at], y);
        } else {
          put(static_cast<float*>(linear.y)[at], y);
        }
      }
    }
  }

  const WideArgs& args_;
  Place<S>& place_;
  const int warp_, lane_;
  const bool exists_;
  const int row_, column_;
  // Addresses of the rows and of the "free" barrier of the last place that was fetched.
  std::uint32_t rows_ = 0, free_ = 0;
  float d_[kEights][4];  // sums of the group, or of the row
  float acc_[kGrouped ? kEights : 1][4] = {};
};

template <bool kGrouped, int kTileRows, int kGroups>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__((Shape<kGrouped, kTileRows, kGroups>::kThreads), 1)
    fp8_wide_kernel(const __grid_constant__ WideArgs args) {
  using S = Shape<kGrouped, kTileRows, kGroups>;
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  Place<S> place = {shared_address(memory)};
  const int rank = static_cast<int>(rank_in_cluster());
  if (threadIdx.x < S::kPlaces) {
    make_barrier(place.memory + S::kBarriers + 8 * threadIdx.x, 4);
    make_barrier(place.memory + S::kBarriers + 8 * (S::kPlaces + threadIdx.x), kCluster * S::kUsers);
  }
  publish_barriers();
  wait_for_cluster();
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= S::kUsers) {
    if constexpr (S::kGroups > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kFewRegisters));
    // Weights do not depend on preceding kernels, so they are loaded at once. The first of these warps also loads x.
    if (warp == S::kUsers) {
      wait_for_kernel_before();
      see_writes();
    }
    if (threadIdx.x % 32 == 0) feed<S>(args, place, warp - S::kUsers, kTileRows, rank);
    __syncwarp();
    wait_for_kernel_before();
  } else {
    if constexpr (S::kGroups > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kManyRegisters));
    wait_for_kernel_before();
    const int clusters = static_cast<int>(gridDim.x) / kCluster;
#pragma unroll 1
    for (int pair = static_cast<int>(blockIdx.x) / kCluster; pair < args.pairs; pair += clusters) {
      Tile<kGrouped, kTileRows, kGroups>(args, place, position_of(args, pair, rank)).compute();
    }
  }
  wait_for_cluster();  // the other block may still write to this block's shared memory
}

using Kernel = void (*)(WideArgs);
struct Choice {
  Kernel kernel;
  int tile_rows, columns, threads, bytes;
};
template <bool kGrouped, int kTileRows, int kGroups>
Choice choice() {
  using S = Shape<kGrouped, kTileRows, kGroups>;
  return {fp8_wide_kernel<kGrouped, kTileRows, kGroups>, kTileRows, S::kPanels * kFp8Panel, S::kThreads, S::kBytes};
}
// The available tile sizes.
constexpr int kChoices = 5;
template <bool kGrouped>
Choice choice_of_size(int size) {
  switch (size) {
    case 0:
      return choice<kGrouped, 32, 1>();
    case 1:
      return choice<kGrouped, 64, 1>();
    case 2:
      return choice<kGrouped, 64, 2>();
    case 3:
      return choice<kGrouped, 128, 2>();
    default:
      return choice < kGrouped, kGrouped ? 128 : 256, 2 > ();
  }
}
Choice choice_of(bool grouped, int size) {
  return grouped ? choice_of_size<true>(size) : choice_of_size<false>(size);
}

// The pairs of tiles of a size.
std::int64_t pairs_of(const LinearFp8Args& args, const Choice& size) {
  const std::int64_t columns = kCluster * size.columns;
  return (args.n + columns - 1) / columns * ((args.m + size.tile_rows - 1) / size.tile_rows);
}

// The tile size with which a block takes the least time, by cycles of its products and of its bytes from the L2. The
// choice changes no bit.
Choice cheapest(const LinearFp8Args& args, int num_blocks) {
  Choice best = {};
  std::int64_t least = INT64_MAX;
  for (int size = 0; size < kChoices; ++size) {
    const Choice one = choice_of(args.format.grouped, size);
    // Tiles of 256 rows only pay if each block has many of them.
    if (one.tile_rows == 256 && args.m < kRowsOfLargeTiles) continue;
    constexpr std::int64_t kBytesACycle = 28;                        // for each multiprocessor, if all read
    const std::int64_t products = one.tile_rows * one.columns / 16;  // cycles for a chunk
    const std::int64_t bytes = (one.tile_rows * 2 / kCluster + one.columns) * kFp8Chunk;
    const std::int64_t clusters = num_blocks / kCluster, rounds = (pairs_of(args, one) + clusters - 1) / clusters;
    const std::int64_t cost = rounds * std::max(products, bytes / kBytesACycle);
    if (cost <= least) least = cost, best = one;
  }
  return best;
}

}  // namespace

cudaError_t launch_linear_fp8_wide(const LinearFp8Args& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const Fp8Layout layout(args.format);
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const Choice chosen = cheapest(args, most);
  WideArgs all = {};
  const cudaError_t error =
      describe_fp8_rows(args.x, args.m, args.format.k, args.x_stride, chosen.tile_rows / kCluster, all.rows);
  if (error != cudaSuccess) return error;
  all.linear = args;
  all.panel_bytes = layout.panel_bytes;
  all.scales = reinterpret_cast<const float*>(args.w + layout.scales);
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.row_tiles = static_cast<std::int32_t>((args.m + chosen.tile_rows - 1) / chosen.tile_rows);
  all.column_tiles = static_cast<std::int32_t>((args.n + chosen.columns - 1) / chosen.columns);
  all.pairs = static_cast<std::int32_t>(pairs_of(args, chosen));
  const int blocks = kCluster * std::min(all.pairs, most / kCluster);
  return launch_overlapped(chosen.kernel, dim3(static_cast<unsigned>(blocks)), chosen.threads,
                           static_cast<std::size_t>(chosen.bytes), stream, all);
}

cudaError_t prepare_fp8_wide_kernels() {
  for (const bool grouped : {false, true}) {
    for (int size = 0; size < kChoices; ++size) {
      const Choice one = choice_of(grouped, size);
      const cudaError_t error =
          cudaFuncSetAttribute(one.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, one.bytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
