// Both operands come from shared memory, as in linear_wide.cu: weights [64, 16] for each warpgroup, already bf16,
// and rows of x. One warp loads; two warpgroups multiply. Three warps widen the weights of the next part meanwhile. Two
// blocks are a cluster that shares rows of x.
//
// Widened weights: [tile of 128 columns][half of a chunk][128 columns][64 elements of K], swizzled as wgmma reads them,
// so that a tile's half of a chunk is one bulk copy.
#include "kernels/cuda/linear_fp8_many.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/cuda/widened_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWidenThreads = 256;
constexpr int kWarpgroup = 128, kGroups = 2, kUsers = kGroups * 4, kThreads = (kGroups + 1) * kWarpgroup;
constexpr int kWarpgroupColumns = kFp8ManyColumns / kGroups, kWarpColumns = 16;
constexpr int kDepth = kFp8Swizzled, kRowBytes = kDepth * 2;  // of a piece: half of a chunk
constexpr int kWeightBytes = kFp8ManyColumns * kRowBytes;
constexpr int kCluster = 2;  // blocks
// Results on their way to memory: 128 rows of a warp's columns.
constexpr int kStageRows = 128, kStageBytes = kStageRows * kWarpColumns * 2;
constexpr int kSharedBytes = 226 << 10;
// Their total must not exceed the registers of the block at its launch, or the threads would wait forever.
constexpr int kFewRegisters = 40, kManyRegisters = 232;
static_assert(kFewRegisters + kGroups * kManyRegisters <= (kGroups + 1) * (65536 / kThreads / 8 * 8));
static_assert(kWarpgroupColumns == 64);

// Without groups the sums of a row stay in one accumulator to the end, which leaves registers for 256 rows.
template <bool kGrouped>
struct Shape {
  static constexpr int kTileRows = kGrouped ? 128 : 256;
  static constexpr int kRowsBytes = kTileRows * kRowBytes, kPlaceBytes = kRowsBytes + kWeightBytes;
  static constexpr int kPlaces = (kSharedBytes - kUsers * kStageBytes - 256) / kPlaceBytes;
  static constexpr int kStages = kPlaces * kPlaceBytes, kBarriers = kStages + kUsers * kStageBytes;
  static constexpr int kBytes = kBarriers + 2 * 8 * kPlaces;
  static_assert(kPlaces >= 4 && kBytes <= kSharedBytes);
};

struct ManyArgs {
  CUtensorMap rows;  // [m][k]
  LinearFp8Args linear;
  const std::byte* widened;
  Fp8Widening next;
  const std::byte* scales;  // of the first column: with groups those of the first chunk, otherwise f32 [n]
  std::int64_t panel_bytes;
  std::int32_t pieces;  // of K; even
  std::int32_t row_tiles, column_tiles;
  std::int32_t pairs;  // of tiles, one for each block of a cluster
  bool whole_lines;    // y is bf16, and 16 bytes of it can be written together
};

// Widens chunk number `at`; called by a warp. `ready` is called between loading and writing.
template <class Ready>
__device__ __forceinline__ void widen(const Fp8Widening& part, std::int64_t at, const Ready& ready) {
  const std::int64_t panel = at / part.chunks, chunk = at % part.chunks;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::byte* const from = part.from + at * part.chunk_bytes + lane * 16;
  const std::uint64_t policy = policy_of_what_is_read_once();
  const uint4 halves[2] = {load_once(from, policy), load_once(from + 512, policy)};
  constexpr std::int64_t kTilePanels = kFp8ManyColumns / kFp8Panel;
  std::byte* const piece = part.to + ((panel / kTilePanels * part.chunks + chunk) * 2) * kWeightBytes +
                           (panel % kTilePanels * kFp8Panel + lane / 4) * kRowBytes;
  ready();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t words[4] = {halves[half].x, halves[half].y, halves[half].z, halves[half].w};
    std::uint32_t first[4], second[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) widen_fp8(words[i], first[i], second[i]);
    uint4* const row = reinterpret_cast<uint4*>(piece + half * kWeightBytes);
    const int unit = lane % 4 * 2, swizzle = lane / 4;
    transpose(first);
    transpose(second);
    row[unit ^ swizzle] = {first[0], first[1], first[2], first[3]};
    row[(unit + 1) ^ swizzle] = {second[0], second[1], second[2], second[3]};
  }
}

// One warp for each chunk of a panel.
__global__ void __launch_bounds__(kWidenThreads) widen_kernel(const Fp8Widening part) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kWidenThreads + threadIdx.x) / 32;
  let_next_kernel_begin();
  if (at >= part.panels * part.chunks) return wait_for_kernel_before();
  widen(part, at, [] { wait_for_kernel_before(); });  // it may read what the last product widened
}

// The order of the pairs of tiles, as in linear_wide.cu: bands of rows, and in each band column after column.
struct TilePosition {
  int row, column;  // in tiles
  bool exists;
};
template <bool kGrouped>
__device__ __forceinline__ TilePosition position_of(const ManyArgs& args, int pair, int rank) {
  constexpr int kBand = 2048 / Shape<kGrouped>::kTileRows;
  const int column_pairs = args.pairs / args.row_tiles, of_band = kBand * column_pairs;
  const int first = pair / of_band * kBand, rows = min(kBand, args.row_tiles - first), i = pair % of_band;
  const int column = kCluster * (i / rows) + rank;
  return {first + i % rows, min(column, args.column_tiles - 1), column < args.column_tiles};
}

// A place in the ring. `phase` is 0 after an even number of passes over the ring, otherwise 1.
template <class S>
struct Place {
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

// Loads pieces in the order of their use; used by one lane.
template <bool kGrouped>
__device__ __forceinline__ void feed(const ManyArgs& args, Place<Shape<kGrouped>> place, int rank) {
  using S = Shape<kGrouped>;
  constexpr std::uint16_t kAll = (1u << kCluster) - 1;
  const int cluster = static_cast<int>(blockIdx.x) / kCluster, clusters = static_cast<int>(gridDim.x) / kCluster;
#pragma unroll 1
  for (int pair = cluster; pair < args.pairs; pair += clusters) {
    const TilePosition position = position_of<kGrouped>(args, pair, rank);
    const std::byte* weights = args.widened + static_cast<std::int64_t>(position.column) * args.pieces * kWeightBytes;
    const int row = position.row * S::kTileRows + rank * (S::kTileRows / kCluster);
#pragma unroll 1
    for (int piece = 0; piece < args.pieces; ++piece, weights += kWeightBytes) {
      wait_barrier(place.free(), place.phase ^ 1);
      expect_bytes(place.full(), S::kPlaceBytes);
      copy_bulk(place.weights(), weights, kWeightBytes, place.full());
      copy_piece_to_cluster(place.rows() + rank * (S::kRowsBytes / kCluster), args.rows, piece * kDepth, row,
                            place.full(), kAll);
      place.advance();
    }
  }
}

// A warpgroup's tile of y: 64 columns times kTileRows rows. One per thread; methods are called by the whole warpgroup.
// Invariant: place_ is the place of the next piece to take.
template <bool kGrouped>
class Tile {
  using S = Shape<kGrouped>;
  static constexpr int kEights = S::kTileRows / 8;

 public:
  __device__ Tile(const ManyArgs& args, Place<S>& place, const TilePosition& tile)
      : args_(args),
        place_(place),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        exists_(tile.exists),
        row_(tile.row * S::kTileRows),
        first_column_(tile.column * kFp8ManyColumns + warp_ * kWarpColumns) {}

  __device__ __forceinline__ void compute() {
    if constexpr (kGrouped) {
      sum_groups();
    } else {
      sum_row();
    }
    if (!exists_) return;
    args_.whole_lines ? write_lines() : write_elements();
  }

 private:
  // Starts the products of the next piece. `adds`: to d_.
  __device__ __forceinline__ void multiply(bool adds) {
    wait_barrier(place_.full(), place_.phase);
    const std::uint64_t a = matrix(place_.weights() + warp_ / 4 * (kWarpgroupColumns * kRowBytes), 0, 1024);
    const std::uint64_t b = matrix(place_.rows(), 0, 1024);
    begin_products();
#pragma unroll
    for (int step = 0; step < kDepth / kFp8Step; ++step) {
      row_product(d_, moved(a, step * kFp8Step * 2), moved(b, step * kFp8Step * 2), adds || step > 0);
    }
    commit_products();
  }
  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    __syncwarp();
    if (lane_ < kCluster) arrive_in_cluster(barrier, lane_);
  }

  __device__ __forceinline__ void sum_row() {
    std::uint32_t before = 0;
#pragma unroll 1
    for (int piece = 0; piece < args_.pieces; ++piece) {
      multiply(piece > 0);
      wait_products_but_last();
      if (piece > 0) release(before);
      before = place_.free();
      place_.advance();
    }
    wait_products();
    hold(d_);
    release(before);
    const float* const scales = reinterpret_cast<const float*>(args_.scales) + first_column_ + lane_ / 4;
    const float scale[2] = {__ldg(scales), __ldg(scales + 8)};
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) d_[i][j] = __fmaf_rn(d_[i][j], scale[j / 2], 0.0f);
    }
  }

  __device__ __forceinline__ void sum_groups() {
    const std::byte* scales = args_.scales + first_column_ / kFp8Panel * args_.panel_bytes + lane_ / 4 * 4;
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
      wait_products_but_last();
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
    return kGrouped ? acc_[kGrouped ? i : 0][j] : d_[i][j];
  }

  // Lanes hold single elements of a column's rows; stmatrix transposes them into the warp's stage.
  __device__ __forceinline__ void write_lines() const {
    const LinearFp8Args& linear = args_.linear;
    const int n = first_column_ + lane_ / 4;
    const float bias[2] = {linear.bias == nullptr || n >= linear.n ? 0.0f : linear.bias[n],
                           linear.bias == nullptr || n + 8 >= linear.n ? 0.0f : linear.bias[n + 8]};
    const auto pair = [&](int i, int half) {
      float low = sum(i, 2 * half), high = sum(i, 2 * half + 1);
      if (linear.bias != nullptr) low = __fadd_rn(low, bias[half]), high = __fadd_rn(high, bias[half]);
      return two_bf16(low, high);
    };
    const std::uint32_t stage = place_.memory + S::kStages + warp_ * kStageBytes;
    const std::uint32_t to = stage + (lane_ / 16 * 8 + lane_ % 8) * (kWarpColumns * 2) + lane_ / 8 % 2 * 16;
    const int column = first_column_ + lane_ % 2 * 8;
    auto* const y = static_cast<Bf16*>(linear.y);
#pragma unroll
    for (int part = 0; part < S::kTileRows / kStageRows; ++part) {
      if (row_ + part * kStageRows >= linear.m) break;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kStageRows / 8; i += 2) {
        const int at = part * (kStageRows / 8) + i;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         to + i * 8 * (kWarpColumns * 2)),
                     "r"(pair(at, 0)), "r"(pair(at, 1)), "r"(pair(at + 1, 0)), "r"(pair(at + 1, 1))
                     : "memory");
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kStageRows / 16; ++i) {
        const std::int64_t m = row_ + part * kStageRows + i * 16 + lane_ / 2;
        if (m >= linear.m || column >= linear.n) continue;
        *reinterpret_cast<uint4*>(y + m * linear.y_stride + column) =
            with_canonical_nans(load_sixteen(stage + i * 512 + lane_ * 16));
      }
    }
  }

  __device__ __forceinline__ void write_elements() const {
    const LinearFp8Args& linear = args_.linear;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const std::int64_t m = row_ + 8 * i + lane_ % 4 * 2;
      if (m >= linear.m) break;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t n = first_column_ + lane_ / 4 + j / 2 * 8;
        if (n >= linear.n || m + j % 2 >= linear.m) continue;
        float y = sum(i, j);
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

  const ManyArgs& args_;
  Place<S>& place_;
  const int warp_, lane_;
  const bool exists_;
  const int row_, first_column_;  // first_column_: of the warp
  float d_[kEights][4];           // sums of the group, or of the row
  float acc_[kGrouped ? kEights : 1][4] = {};
};

template <bool kGrouped>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    fp8_many_kernel(const __grid_constant__ ManyArgs args) {
  using S = Shape<kGrouped>;
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  Place<S> place = {shared_address(memory)};
  const int rank = static_cast<int>(rank_in_cluster());
  make_barriers(place.memory + S::kBarriers, S::kPlaces, 1);
  make_barriers(place.memory + S::kBarriers + 8 * S::kPlaces, S::kPlaces, kCluster * kUsers);
  publish_barriers();
  wait_for_cluster();
  wait_for_kernel_before();
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= kUsers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    if (warp == kUsers && threadIdx.x % 32 == 0) {
      see_writes();
      feed<kGrouped>(args, place, rank);
    }
    if (warp > kUsers) {
      constexpr int kWideners = 3;  // warps
      const std::int64_t all = args.next.panels * args.next.chunks;
#pragma unroll 1
      for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWideners + warp - kUsers - 1; at < all;
           at += static_cast<std::int64_t>(gridDim.x) * kWideners) {
        widen(args.next, at, [] {});
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
    const int clusters = static_cast<int>(gridDim.x) / kCluster;
#pragma unroll 1
    for (int pair = static_cast<int>(blockIdx.x) / kCluster; pair < args.pairs; pair += clusters) {
      Tile<kGrouped>(args, place, position_of<kGrouped>(args, pair, rank)).compute();
    }
  }
  wait_for_cluster();  // the other block may still write to this block's shared memory
}

template <bool kGrouped>
cudaError_t launch(ManyArgs all, int most, cudaStream_t stream) {
  using S = Shape<kGrouped>;
  const LinearFp8Args& args = all.linear;
  const cudaError_t error =
      describe_fp8_rows(args.x, args.m, args.format.k, args.x_stride, S::kTileRows / kCluster, all.rows);
  if (error != cudaSuccess) return error;
  all.row_tiles = static_cast<std::int32_t>((args.m + S::kTileRows - 1) / S::kTileRows);
  all.pairs = (all.column_tiles + kCluster - 1) / kCluster * all.row_tiles;
  const int blocks = kCluster * std::min(all.pairs, most / kCluster);
  return launch_overlapped(fp8_many_kernel<kGrouped>, dim3(static_cast<unsigned>(blocks)), kThreads, S::kBytes, stream,
                           all);
}

std::int64_t rounded_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::int64_t fp8_many_part(const LinearFp8Args& args, int num_multiprocessors) {
  const std::int64_t clusters = num_multiprocessors / kCluster, k = args.format.k,
                     rows = args.format.grouped ? 128 : 256;
  const std::int64_t row_tiles = rounded_up(args.m, rows), all = rounded_up(args.n, kCluster * kFp8ManyColumns);
  const std::int64_t most = std::max(kMaxWidenedFp8Bytes / (widened_fp8_bytes(1, k) * kCluster), std::int64_t{1});
  // Cycles: of a round of tiles, of widening a pair of tiles before the first product, of a start.
  const std::int64_t round = rows * k / 16, widening = k * 2 / 3, start = 5000;
  std::int64_t best = 1, least = INT64_MAX;
  for (std::int64_t each = 1; each <= std::min(all, most); ++each) {
    const std::int64_t parts = rounded_up(all, each), last = all - (parts - 1) * each;
    const std::int64_t rounds =
        (parts - 1) * rounded_up(each * row_tiles, clusters) + rounded_up(last * row_tiles, clusters);
    const std::int64_t cost = rounds * round + each * widening + parts * start;
    if (cost < least) least = cost, best = each;
  }
  return best * kCluster * kFp8ManyColumns;
}

Fp8Widening fp8_widening(const LinearFp8Args& args, void* to) {
  const Fp8Layout layout(args.format);
  // Whole tiles: the columns behind the last exist (Fp8Layout::panels).
  return {args.w + args.first_column / kFp8Panel * layout.panel_bytes,
          rounded_up(args.n, kFp8ManyColumns) * (kFp8ManyColumns / kFp8Panel), layout.chunks, layout.chunk_bytes,
          static_cast<std::byte*>(to)};
}

cudaError_t launch_widen_fp8(const Fp8Widening& part, cudaStream_t stream) {
  const std::int64_t blocks = rounded_up(part.panels * part.chunks * 32, kWidenThreads);
  return launch_overlapped(widen_kernel, dim3(static_cast<unsigned>(blocks)), kWidenThreads, 0, stream, part);
}

cudaError_t launch_linear_fp8_many(const LinearFp8Args& args, const void* widened, const Fp8Widening& next,
                                   cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const Fp8Layout layout(args.format);
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const bool grouped = args.format.grouped;
  ManyArgs all = {};
  all.linear = args;
  all.widened = static_cast<const std::byte*>(widened);
  all.next = next;
  all.scales = grouped ? args.w + args.first_column / kFp8Panel * layout.panel_bytes + kFp8ValueBytes
                       : args.w + layout.scales + args.first_column * 4;
  all.panel_bytes = layout.panel_bytes;
  all.pieces = static_cast<std::int32_t>(layout.chunks * 2);
  all.column_tiles = static_cast<std::int32_t>((args.n + kFp8ManyColumns - 1) / kFp8ManyColumns);
  all.whole_lines = args.y_type == ElementType::kBf16 && reinterpret_cast<std::uintptr_t>(args.y) % 16 == 0 &&
                    args.y_stride % 8 == 0 && args.n % 8 == 0;
  return grouped ? launch<true>(all, most, stream) : launch<false>(all, most, stream);
}

cudaError_t prepare_fp8_many_kernels() {
  const cudaError_t error =
      cudaFuncSetAttribute(fp8_many_kernel<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<false>::kBytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(fp8_many_kernel<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<true>::kBytes);
}

}  // namespace mortise::cuda
