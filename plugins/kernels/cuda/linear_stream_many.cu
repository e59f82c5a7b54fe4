// A warpgroup multiplies up to 64 columns of y with wgmma, whose steps along K follow each other after 18 cycles for 8
// rows and 24 for 32; those of mma.sync take 26 for each 8 rows (H200). With fewer columns the instruction's other rows
// are what lies behind in shared memory, and are not stored, so columns are spread over all multiprocessors, however
// few there are. A block's one or two warpgroups have neighbouring columns, a "tile group". Its weights and the rows of
// x come in pieces along K into two rings, each filled by its own warp. Requesting a piece takes a warp some hundred
// cycles, so pieces of few columns go further along K. All blocks read all of x, once for each of their tile groups,
// from the L2.
#include "kernels/cuda/linear_stream_many.hpp"

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_stream.cuh"
#include "kernels/cuda/weight_ring.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda {
namespace {

using namespace stream;

constexpr int kPanel = 8;          // columns of y that shared memory holds together
constexpr int kGroupColumns = 64;  // of a warpgroup's instruction
constexpr int kMaxGroups = 2;      // warpgroups
constexpr int kOtherThreads = 64;  // one warp loads x, another loads weights
constexpr int kRowBytes = kSwizzled * 2;
constexpr int kMinDepth = 128, kMaxDepth = 512;  // elements along K in a piece
constexpr int kWantedBytes = 16 << 10;           // of weights in a piece
constexpr int kMaxPlaces = 32;                   // in a ring
// The ring of x. It lies behind the ring of weights, so columns that the last piece does not have can be read there.
constexpr int kRowsRingBytes = 64 << 10, kMinRowsPlaces = 4;
// From a place's "full" barrier to its "free" barrier.
constexpr int kFree = kMaxPlaces * 8;
constexpr int kBarrierBytes = 4 * kFree;
// Bytes of weights that a block has in flight before the preceding kernels have ended; as kEarlyPieces of
// linear_stream.cu.
constexpr int kEarlyBytes = 48 << 10;

// How a launch divides its work; computed on the host.
struct Split {
  std::int32_t warpgroups, columns;  // of each warpgroup
  std::int32_t groups;               // tile groups
  std::int32_t depth;                // elements along K in a piece
  std::int32_t places, rows_places;  // in the rings of weights and of x
  __host__ __device__ std::int32_t width() const { return warpgroups * columns; }
};

struct ManyArgs {
  CUtensorMap weights;  // [k / kSwizzled][n][kSwizzled]
  CUtensorMap rows;     // [k / kSwizzled][m][kSwizzled]
  LinearArgs linear;
  Split split;
};

// Bytes of a piece with so many rows of x or columns of y.
__host__ __device__ constexpr int piece_bytes(int rows, int depth) {
  return rows * depth * 2;
}

// Loads a block's pieces of x or of weights in the order of their use; used by one warp. load(group, depth, place)
// requests a piece of a tile group. In the first round of the ring, before(place) is called instead of waiting for the
// piece before.
template <int kDepth, class Before, class Load>
__device__ __forceinline__ void feed(const ManyArgs& args, Place place, const Before& before, const Load& load) {
  const int k = static_cast<int>(args.linear.k);
  bool first_round = true;
#pragma unroll 1
  for (int group = static_cast<int>(blockIdx.x); group < args.split.groups; group += static_cast<int>(gridDim.x)) {
#pragma unroll 1
    for (int depth = 0; depth < k; depth += kDepth) {
      if (first_round) {
        before(place.at);
      } else {
        wait_barrier(place.barrier() + kFree, place.phase ^ 1);
      }
      if (is_elected()) {
        expect_bytes(place.barrier(), place.piece_bytes);
        load(group, depth / kSwizzled, place);
      }
      place.advance();
      if (place.at == 0) first_round = false;
    }
  }
}

// Writes the warp's part of a warpgroup's columns, which begin at column `first` of y.
template <int kRowTiles>
__device__ __forceinline__ void write(const ManyArgs& args, std::int64_t first, const float (&d)[kRowTiles][4]) {
  const LinearArgs& linear = args.linear;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = warp * 16 + half * kPanel + lane / 4;
    const std::int64_t n = first + column;
    if (column >= args.split.columns || n >= linear.n) continue;
    const float bias = linear.bias == nullptr ? 0.0f : linear.bias[n];
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::int64_t m = tile * 8 + lane % 4 * 2 + j;
        if (m >= linear.m) continue;
        const float sum = d[tile][half * 2 + j], y = linear.bias == nullptr ? sum : __fadd_rn(sum, bias);
        if (linear.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(linear.y)[m * linear.y_stride + n], y);
        } else {
          put(static_cast<float*>(linear.y)[m * linear.y_stride + n], y);
        }
      }
    }
  }
}

template <int kRowTiles, int kDepth>
__global__ void __launch_bounds__(kMaxGroups * 128 + kOtherThreads, 1)
    many_kernel(const __grid_constant__ ManyArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const LinearArgs& linear = args.linear;
  const Split& split = args.split;
  const int k = static_cast<int>(linear.k), width = split.width(), multiplying = split.warpgroups * 4;
  const int weights_bytes = piece_bytes(width, kDepth), rows_bytes = piece_bytes(8 * kRowTiles, kDepth);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t weights_at = shared_address(memory), rows_at = weights_at + split.places * weights_bytes;
  const std::uint32_t barriers = rows_at + split.rows_places * rows_bytes, rows_barriers = barriers + 2 * kFree;
  Place weights = {weights_at, barriers, split.places, weights_bytes};
  Place rows = {rows_at, rows_barriers, split.rows_places, rows_bytes};
  make_barriers(barriers, split.places, 1);
  make_barriers(barriers + kFree, split.places, multiplying);
  make_barriers(rows_barriers, split.rows_places, 1);
  make_barriers(rows_barriers + kFree, split.rows_places, multiplying);
  publish_barriers();
  __syncthreads();
  if (warp == multiplying + 1) {  // weights do not depend on preceding kernels
    const std::uint64_t policy = policy_of_what_is_read_once();
    const int early = max(kEarlyBytes / weights_bytes, 1);
    const auto wait_gently = [&](int at) {
      if (at < early) return;
      while (!has_come(barriers + (at - early) * 8, 0) && !has_come(rows_barriers, 0)) {
      }
    };
    feed<kDepth>(args, weights, wait_gently, [&](int group, int at, const Place& to) {
      copy_piece(to.piece(), args.weights, group * width, at, to.barrier(), policy);
    });
    wait_for_kernel_before();
    return;
  }
  wait_for_kernel_before();
  if (warp == multiplying) {
    see_writes();
    feed<kDepth>(args, rows, [](int) {},
         [&](int, int at, const Place& to) { copy_piece(to.piece(), args.rows, 0, at, to.barrier()); });
    return;
  }

  const int own_columns = warp / 4 * split.columns;  // of the tile group, before the warpgroup's
  // Bytes from 64 elements along K to the next.
  const int w_stride = width * kRowBytes;
  constexpr int kXStride = 8 * kRowTiles * kRowBytes;
  float d[kRowTiles][4];
  const auto multiply = [&](std::uint64_t w, std::uint64_t x) {
#pragma unroll
    for (int step = 0; step < kSwizzled / kStep; ++step) {
      row_product(d, moved(w, step * kStep * 2), moved(x, step * kStep * 2), true);
    }
  };
  struct Operands {
    std::uint64_t w, x;
  };
  const auto next_piece = [&]() -> Operands {
    wait_barrier(rows.barrier(), rows.phase);
    wait_barrier(weights.barrier(), weights.phase);
    return {matrix(weights.piece() + own_columns * kRowBytes, 0, kPanel * kRowBytes),
            matrix(rows.piece(), 0, kPanel * kRowBytes)};
  };
  std::uint32_t w_free = 0, x_free = 0;  // of the piece before
  const auto free_before = [&] {
    if (lane == 0 && w_free != 0) {
      arrive(w_free);
      arrive(x_free);
    }
    w_free = weights.barrier() + kFree;
    x_free = rows.barrier() + kFree;
    weights.advance();
    rows.advance();
  };
#pragma unroll 1
  for (int group = static_cast<int>(blockIdx.x); group < split.groups; group += static_cast<int>(gridDim.x)) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) d[tile][0] = d[tile][1] = d[tile][2] = d[tile][3] = 0.0f;
    hold(d);
    int depth = 0;
#pragma unroll 1
    for (; depth + kDepth <= k; depth += kDepth) {
      const Operands piece = next_piece();
      begin_products();
#pragma unroll
      for (int part = 0; part < kDepth / kSwizzled; ++part) multiply(moved(piece.w, part * w_stride), moved(piece.x, part * kXStride));
      commit_products();
      wait_products_but_last();
      free_before();
    }
    // Products beyond K are left out: adding a zero could change the sign of a zero.
    if (depth < k) {
      Operands piece = next_piece();
#pragma unroll 1
      for (; depth < k; depth += kSwizzled) {
        begin_products();
        multiply(piece.w, piece.x);
        commit_products();
        wait_products();
        piece = {moved(piece.w, w_stride), moved(piece.x, kXStride)};
      }
      free_before();
    }
    wait_products();
    hold(d);
    write(args, static_cast<std::int64_t>(group) * width + own_columns, d);
  }
}

// The division with which the busiest block has the least work. A tile group costs as much as 16 additional columns,
// because it reads x again.
Split best_split(std::int64_t n, int num_blocks) {
  Split best = {};
  std::int64_t least = 0;
  for (int width = kPanel; width <= kMaxGroups * kGroupColumns; width += kPanel) {
    const int warpgroups = width <= kGroupColumns ? 1 : kMaxGroups;
    if (width % (warpgroups * kPanel) != 0) continue;
    const std::int64_t groups = (n + width - 1) / width, rounds = (groups + num_blocks - 1) / num_blocks;
    const std::int64_t cost = rounds * (width + 16);
    if (best.columns != 0 && cost > least) continue;
    best.warpgroups = warpgroups;
    best.columns = width / warpgroups;
    best.groups = static_cast<std::int32_t>(groups);
    least = cost;
  }
  return best;
}

// Completes a division: pieces as deep as is wanted and both rings allow.
void make_rings(std::int64_t k, int rows, Split& split) {
  split.depth = kMinDepth;
  while (split.depth < std::min<std::int64_t>(kMaxDepth, k) &&
         piece_bytes(split.width(), split.depth) < kWantedBytes &&
         piece_bytes(rows, 2 * split.depth) * kMinRowsPlaces <= kRowsRingBytes) {
    split.depth *= 2;
  }
  split.rows_places = std::min(kRowsRingBytes / piece_bytes(rows, split.depth), kMaxPlaces);
  const int beside = split.rows_places * piece_bytes(rows, split.depth) + kBarrierBytes;
  split.places = std::min((kSharedBytes - beside) / piece_bytes(split.width(), split.depth), kMaxPlaces);
}

template <int kRowTiles>
cudaError_t launch(const LinearArgs& args, int num_blocks, cudaStream_t stream) {
  constexpr int kRows = 8 * kRowTiles;
  ManyArgs all = {{}, {}, args, best_split(args.n, num_blocks)};
  Split& split = all.split;
  make_rings(args.k, kRows, split);
  const cudaError_t weights = describe(args.w, args.n, args.k, args.w_stride, split.width(), split.depth, all.weights);
  if (weights != cudaSuccess) return weights;
  const cudaError_t rows = describe(args.x, args.m, args.k, args.x_stride, kRows, split.depth, all.rows);
  if (rows != cudaSuccess) return rows;
  const auto blocks = static_cast<unsigned>(std::min(split.groups, num_blocks));
  const int bytes = split.places * piece_bytes(split.width(), split.depth) +
                    split.rows_places * piece_bytes(kRows, split.depth) + kBarrierBytes;
  const auto kernel = split.depth == 128   ? many_kernel<kRowTiles, 128>
                      : split.depth == 256 ? many_kernel<kRowTiles, 256>
                                           : many_kernel<kRowTiles, 512>;
  return launch_overlapped(kernel, dim3(blocks), split.warpgroups * 128 + kOtherThreads,
                           static_cast<std::size_t>(bytes), stream, all);
}

template <int kRowTiles>
cudaError_t prepare() {
  // With the most columns and rows, the ring of weights still has two places.
  static_assert(kRowsRingBytes + kBarrierBytes + 2 * piece_bytes(kMaxGroups * kGroupColumns, kMinDepth) <=
                kSharedBytes);
  for (const auto kernel : {many_kernel<kRowTiles, 128>, many_kernel<kRowTiles, 256>, many_kernel<kRowTiles, 512>}) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t launch_linear_stream_many(const LinearArgs& args, int num_blocks, cudaStream_t stream) {
  if (args.m <= 8) return launch<1>(args, num_blocks, stream);
  return args.m <= 16 ? launch<2>(args, num_blocks, stream) : launch<4>(args, num_blocks, stream);
}

cudaError_t prepare_stream_many_kernels() {
  for (const auto prepare_one : {prepare<1>, prepare<2>, prepare<4>}) {
    if (const cudaError_t error = prepare_one(); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
