// Both operands come from shared memory, as in linear_wide.cu: weights [64, 16] for each warpgroup, already bf16,
// and rows of x. One warp loads; two warpgroups multiply. Three warps widen the weights of the next part meanwhile. Two
// blocks are a cluster that shares rows of x.
//
// Widened weights: [tile of 128 columns][half of a chunk][128 columns][64 elements of K], swizzled as wgmma reads them,
// so that a tile's half of a chunk is one bulk copy.
#include "kernels/cuda/linear_fp8_many.hpp"

#include <algorithm>

#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/wide_tile.cuh"
#include "kernels/cuda/widened_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWidenThreads = 256;
constexpr int kWarpgroup = 128, kGroups = 2, kThreads = (kGroups + 1) * kWarpgroup;
constexpr int kWeightBytes = kFp8ManyColumns * kWideRowBytes;  // of a piece: half of a chunk
constexpr int kSharedBytes = 226 << 10;
// Their total must not exceed the registers of the block at its launch, or the threads would wait forever.
constexpr int kFewRegisters = 40, kManyRegisters = 232;
static_assert(kFewRegisters + kGroups * kManyRegisters <= (kGroups + 1) * (65536 / kThreads / 8 * 8));

// Without groups the sums of a row stay in one accumulator to the end, which leaves registers for 256 rows.
template <bool kGrouped>
struct Shape : WideShape<kGrouped ? 2 : 1, kGrouped ? 128 : 256, kGroups, kGroups, kSharedBytes> {
  static constexpr bool kWritten = false;
  static_assert(Shape::kColumns == kFp8ManyColumns && Shape::kWeightBytes == mortise::cuda::kWeightBytes);
};

struct ManyArgs {
  WideProduct product;
  const std::byte* widened;
  Fp8Widening next;
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
                           (panel % kTilePanels * kFp8Panel + lane / 4) * kWideRowBytes;
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

// Loads pieces in the order of their use; used by one lane.
template <bool kGrouped>
__device__ __forceinline__ void feed(const ManyArgs& args, WidePlace<Shape<kGrouped>> place, int rank) {
  using S = Shape<kGrouped>;
  constexpr std::uint16_t kAll = (1u << kWideCluster) - 1;
  const WideProduct& product = args.product;
  const int cluster = static_cast<int>(blockIdx.x) / kWideCluster,
            clusters = static_cast<int>(gridDim.x) / kWideCluster;
#pragma unroll 1
  for (int pair = cluster; pair < product.pairs; pair += clusters) {
    const WidePosition position = position_of<S>(product, pair, rank);
    const std::byte* weights =
        args.widened + static_cast<std::int64_t>(position.column) * product.pieces * kWeightBytes;
    const int row = position.row * S::kTileRows + rank * (S::kTileRows / kWideCluster);
#pragma unroll 1
    for (int piece = 0; piece < product.pieces; ++piece, weights += kWeightBytes) {
      wait_barrier(place.free(), place.phase ^ 1);
      expect_bytes(place.full(), S::kPlaceBytes);
      copy_bulk(place.weights(), weights, kWeightBytes, place.full());
      copy_piece_to_cluster(place.rows() + rank * (S::kRowsBytes / kWideCluster), product.rows, piece * kWideDepth, row,
                            place.full(), kAll);
      place.advance();
    }
  }
}

template <bool kGrouped>
__global__ void __cluster_dims__(kWideCluster, 1, 1) __launch_bounds__(kThreads, 1)
    fp8_many_kernel(const __grid_constant__ ManyArgs args) {
  using S = Shape<kGrouped>;
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  WidePlace<S> place = {shared_address(memory)};
  const int rank = static_cast<int>(rank_in_cluster());
  make_barriers(place.memory + S::kBarriers, S::kPlaces, 1);
  make_barriers(place.memory + S::kBarriers + 8 * S::kPlaces, S::kPlaces, kWideCluster * S::kUsers);
  publish_barriers();
  wait_for_cluster();
  wait_for_kernel_before();
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= S::kUsers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    if (warp == S::kUsers && threadIdx.x % 32 == 0) {
      see_writes();
      feed<kGrouped>(args, place, rank);
    }
    if (warp > S::kUsers) {
      constexpr int kWideners = 3;  // warps
      const std::int64_t all = args.next.panels * args.next.chunks;
#pragma unroll 1
      for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWideners + warp - S::kUsers - 1; at < all;
           at += static_cast<std::int64_t>(gridDim.x) * kWideners) {
        widen(args.next, at, [] {});
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
    const int clusters = static_cast<int>(gridDim.x) / kWideCluster;
#pragma unroll 1
    for (int pair = static_cast<int>(blockIdx.x) / kWideCluster; pair < args.product.pairs; pair += clusters) {
      WideTile<S>(args.product, place, position_of<S>(args.product, pair, rank)).compute();
    }
  }
  wait_for_cluster();  // the other block may still write to this block's shared memory
}

template <bool kGrouped>
cudaError_t launch(ManyArgs all, const LinearFp8Args& args, int most, cudaStream_t stream) {
  using S = Shape<kGrouped>;
  WideProduct& product = all.product;
  const cudaError_t error =
      describe_fp8_rows(args.x, args.m, args.format.k, args.x_stride, S::kTileRows / kWideCluster, product.rows);
  if (error != cudaSuccess) return error;
  product.row_tiles = static_cast<std::int32_t>((args.m + S::kTileRows - 1) / S::kTileRows);
  product.pairs = (product.column_tiles + kWideCluster - 1) / kWideCluster * product.row_tiles;
  const int blocks = kWideCluster * std::min(product.pairs, most / kWideCluster);
  return launch_overlapped(fp8_many_kernel<kGrouped>, dim3(static_cast<unsigned>(blocks)), kThreads, S::kBytes, stream,
                           all);
}

}  // namespace

std::int64_t fp8_many_part(const LinearFp8Args& args, int num_multiprocessors) {
  const std::int64_t clusters = num_multiprocessors / kWideCluster, k = args.format.k,
                     rows = args.format.grouped ? 128 : 256;
  const std::int64_t row_tiles = divided_up(args.m, rows), all = divided_up(args.n, kWideCluster * kFp8ManyColumns);
  const std::int64_t most = std::max(kMaxWidenedFp8Bytes / (widened_fp8_bytes(1, k) * kWideCluster), std::int64_t{1});
  // Cycles: of a round of tiles, of widening a pair of tiles before the first product, of a start.
  const std::int64_t round = rows * k / 16, widening = k * 2 / 3, start = 5000;
  std::int64_t best = 1, least = INT64_MAX;
  for (std::int64_t each = 1; each <= std::min(all, most); ++each) {
    const std::int64_t parts = divided_up(all, each), last = all - (parts - 1) * each;
    const std::int64_t rounds =
        (parts - 1) * divided_up(each * row_tiles, clusters) + divided_up(last * row_tiles, clusters);
    const std::int64_t cost = rounds * round + each * widening + parts * start;
    if (cost < least) least = cost, best = each;
  }
  return best * kWideCluster * kFp8ManyColumns;
}

Fp8Widening fp8_widening(const LinearFp8Args& args, void* to) {
  const Fp8Layout layout(args.format);
  // Whole tiles: the columns behind the last exist (Fp8Layout::panels).
  return {args.w + args.first_column / kFp8Panel * layout.panel_bytes,
          divided_up(args.n, kFp8ManyColumns) * (kFp8ManyColumns / kFp8Panel), layout.chunks, layout.chunk_bytes,
          static_cast<std::byte*>(to)};
}

cudaError_t launch_widen_fp8(const Fp8Widening& part, cudaStream_t stream) {
  const std::int64_t blocks = divided_up(part.panels * part.chunks * 32, kWidenThreads);
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
  all.widened = static_cast<const std::byte*>(widened);
  all.next = next;
  WideProduct& product = all.product;
  product.bias = args.bias;
  product.y = args.y;
  product.y_stride = args.y_stride;
  product.y_type = args.y_type;
  product.m = args.m;
  product.n = args.n;
  product.whole_lines = writes_whole_lines(args.y, args.y_stride, args.y_type, args.n);
  product.scales = grouped ? args.w + args.first_column / kFp8Panel * layout.panel_bytes + kFp8ValueBytes
                           : args.w + layout.scales + args.first_column * 4;
  product.panel_bytes = layout.panel_bytes;
  product.pieces = static_cast<std::int32_t>(layout.chunks * 2);
  product.column_tiles = static_cast<std::int32_t>((args.n + kFp8ManyColumns - 1) / kFp8ManyColumns);
  return grouped ? launch<true>(all, args, most, stream) : launch<false>(all, args, most, stream);
}

cudaError_t prepare_fp8_many_kernels() {
  const cudaError_t error =
      cudaFuncSetAttribute(fp8_many_kernel<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<false>::kBytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(fp8_many_kernel<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<true>::kBytes);
}

}  // namespace mortise::cuda
