// Neighbouring tiles form a "tile group", one tile for each of a block's warps. The weights of a tile group and the
// rows of x come in pieces along K into two rings, each filled by its own warp; the multiplying warps go along K
// together. All blocks read all of x, once for each of their tile groups, from the L2.
#include "kernels/cuda/linear_stream_many.hpp"

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_stream.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/weight_ring.cuh"

namespace mortise::cuda {
namespace {

using namespace stream;

constexpr int kWarps = 8;                    // that multiply, at most
constexpr int kThreads = (kWarps + 2) * 32;  // one more warp loads x, another loads weights
constexpr int kDepth = 256;                  // elements along K in a piece
constexpr int kMaxPlaces = 32;               // in the ring of weights
constexpr int kRowsPlaces = 3;               // in the ring of x
// From a place's "full" barrier to its "free" barrier.
constexpr int kFree = kMaxPlaces * 8, kRowsFree = kRowsPlaces * 8;
constexpr int kBarrierBytes = 2 * (kFree + kRowsFree);
constexpr int kTogether = 2;  // instructions along K whose fragments are loaded together: a step
constexpr int kSteps = kDepth / kStep / kTogether, kStepsOfSwizzled = kSwizzled / kStep / kTogether;

// How a launch divides its work; computed on the host.
struct Split {
  std::int32_t warps;   // that multiply
  std::int32_t groups;  // tile groups, of this many tiles each
  std::int32_t places;  // in the ring of weights
};

struct ManyArgs {
  CUtensorMap weights;  // [k / kSwizzled][n][kSwizzled]
  CUtensorMap rows;     // [k / kSwizzled][m][kSwizzled]
  LinearArgs linear;
  Split split;
};

constexpr int rows_piece_bytes(int row_tiles) {
  return 8 * row_tiles * kDepth * 2;
}
constexpr int weights_piece_bytes(int warps) {
  return warps * kColumns * kDepth * 2;
}

// The operands of a step: of a tile of weights, and of kRowTiles times eight rows of x.
template <int kRowTiles>
struct Fragments {
  std::uint32_t w[kTogether][4], x[kTogether][kRowTiles / 2][4];

  // `weights`, `rows`: where the lane's rows begin in the pieces. `w_unit`, `x_unit`: the 16-byte unit in the row where
  // the piece begins. `swizzled_bytes`: bytes of all warps' weights that are swizzled together.
  __device__ __forceinline__ void load(std::uint32_t weights, std::uint32_t w_unit, int swizzled_bytes,
                                       std::uint32_t rows, std::uint32_t x_unit, int step) {
    const int swizzled = step / kStepsOfSwizzled, first = step % kStepsOfSwizzled * kTogether;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const std::uint32_t along = (first + i) * kStep * 2;
      load_matrices(w[i], weights + swizzled * swizzled_bytes + (w_unit ^ along));
#pragma unroll
      for (int pair = 0; pair < kRowTiles / 2; ++pair) {
        load_matrices(x[i][pair], rows + (swizzled * kRowTiles * 8 + pair * 16) * kSwizzled * 2 + (x_unit ^ along));
      }
    }
  }
  __device__ __forceinline__ void multiply(float (&d)[kRowTiles][4]) const {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        const std::uint32_t b[2] = {x[i][tile / 2][tile % 2 * 2], x[i][tile / 2][tile % 2 * 2 + 1]};
        mma_m16n8k16(d[tile], w[i], b);
      }
    }
  }
};

// Loads a block's pieces of x or of weights in the order of their use; used by one lane. load(group, depth, place)
// requests a piece of a tile group. `free` is the distance from a place's "full" barrier to its "free" barrier.
template <class Load>
__device__ __forceinline__ void feed(const ManyArgs& args, Place place, int free, const Load& load) {
  const int k = static_cast<int>(args.linear.k);
  for (int group = static_cast<int>(blockIdx.x); group < args.split.groups; group += static_cast<int>(gridDim.x)) {
    for (int depth = 0; depth < k; depth += kDepth) {
      wait_barrier(place.barrier() + free, place.phase ^ 1);
      expect_bytes(place.barrier(), place.piece_bytes);
      load(group, depth / kSwizzled, place);
      place.advance();
    }
  }
}

template <int kRowTiles>
__global__ void __launch_bounds__(kThreads, 1) many_kernel(const __grid_constant__ ManyArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  constexpr int kRowsBytes = rows_piece_bytes(kRowTiles);
  const LinearArgs& linear = args.linear;
  const Split& split = args.split;
  const int k = static_cast<int>(linear.k);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int swizzled_bytes = split.warps * kColumns * kSwizzled * 2, piece_bytes = weights_piece_bytes(split.warps);
  const std::uint32_t rows_at = shared_address(memory), weights_at = rows_at + kRowsPlaces * kRowsBytes;
  const std::uint32_t barriers = weights_at + split.places * piece_bytes, rows_barriers = barriers + 2 * kFree;
  Place weights = {weights_at, barriers, split.places, piece_bytes};
  Place rows = {rows_at, rows_barriers, kRowsPlaces, kRowsBytes};
  make_barriers(barriers, split.places, 1);
  make_barriers(barriers + kFree, split.places, split.warps);
  make_barriers(rows_barriers, kRowsPlaces, 1);
  make_barriers(rows_barriers + kRowsFree, kRowsPlaces, split.warps);
  publish_barriers();
  __syncthreads();
  if (warp == kWarps + 1) {  // weights do not depend on preceding kernels
    if (lane == 0) {
      const std::uint64_t policy = policy_of_what_is_read_once();
      feed(args, weights, kFree, [&](int group, int at, const Place& to) {
        copy_piece(to.piece(), args.weights, group * split.warps * kColumns, at, to.barrier(), policy);
      });
    }
    __syncwarp();
    wait_for_kernel_before();
    return;
  }
  wait_for_kernel_before();
  if (warp == kWarps) {
    if (lane != 0) return;
    see_writes();
    feed(args, rows, kRowsFree,
         [&](int, int at, const Place& to) { copy_piece(to.piece(), args.rows, 0, at, to.barrier()); });
    return;
  }
  if (warp >= split.warps) return;

  // The addresses that this lane passes to ldmatrix. For weights: row lane % 16, starting at element 8 (lane / 16). For
  // x: row 8 (lane / 16) + lane % 8, starting at element 8 (lane / 8 % 2). Units of 16 bytes are swizzled.
  const std::uint32_t w_row = (warp * kColumns + lane % 16) * kSwizzled * 2, w_unit = (lane / 16 ^ lane % 8) * 16;
  const std::uint32_t x_row = (lane / 16 * 8 + lane % 8) * kSwizzled * 2, x_unit = (lane / 8 % 2 ^ lane % 8) * 16;
  std::uint32_t w_piece = 0, x_piece = 0, w_free = 0, x_free = 0;
  // Fragments are loaded one step ahead of the products, also across pieces.
  Fragments<kRowTiles> fragments[2];
  const auto wait_for_pieces = [&] {
    w_piece = weights.piece() + w_row, w_free = weights.barrier() + kFree;
    x_piece = rows.piece() + x_row, x_free = rows.barrier() + kRowsFree;
    wait_barrier(rows.barrier(), rows.phase);
    wait_barrier(weights.barrier(), weights.phase);
    weights.advance();
    rows.advance();
    fragments[0].load(w_piece, w_unit, swizzled_bytes, x_piece, x_unit, 0);
  };
  wait_for_pieces();
#pragma unroll 1
  for (int group = static_cast<int>(blockIdx.x); group < split.groups; group += static_cast<int>(gridDim.x)) {
    const bool last_group = group + static_cast<int>(gridDim.x) >= split.groups;
    float d[kRowTiles][4] = {};
#pragma unroll 1
    for (int depth = 0; depth < k; depth += kDepth) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step + 1 < kSteps) {
          fragments[(step + 1) % 2].load(w_piece, w_unit, swizzled_bytes, x_piece, x_unit, step + 1);
        } else {
          __syncwarp();  // all lanes have read the pieces, so their places can be refilled
          if (lane == 0) {
            arrive(w_free);
            arrive(x_free);
          }
          if (depth + kDepth < k || !last_group) wait_for_pieces();
        }
        // Products beyond K are skipped: adding a zero could change the sign of a zero.
        if (depth + step * kTogether * kStep < k) fragments[step % 2].multiply(d);
      }
    }
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) write(linear, group * split.warps + warp, tile * 8, d[tile]);
  }
}

// The number of warps with which the busiest block has the least work. A tile group costs as much as an additional
// tile, because it reads x again.
int best_warps(std::int64_t tiles, int num_blocks) {
  int best = 0;
  std::int64_t least = 0;
  for (int warps = 1; warps <= kWarps; ++warps) {
    const std::int64_t groups = (tiles + warps - 1) / warps, rounds = (groups + num_blocks - 1) / num_blocks;
    const std::int64_t cost = rounds * (warps + 1);
    if (best == 0 || cost <= least) best = warps, least = cost;
  }
  return best;
}

template <int kRowTiles>
cudaError_t launch(const LinearArgs& args, int num_blocks, cudaStream_t stream) {
  constexpr int kBeside = kRowsPlaces * rows_piece_bytes(kRowTiles) + kBarrierBytes;
  const int warps = best_warps(num_tiles(args), num_blocks), piece_bytes = weights_piece_bytes(warps);
  ManyArgs all = {{}, {}, args, {}};
  all.split.warps = warps;
  all.split.groups = static_cast<std::int32_t>((num_tiles(args) + warps - 1) / warps);
  all.split.places = std::min((kSharedBytes - kBeside) / piece_bytes, kMaxPlaces);
  const cudaError_t weights = describe(args.w, args.n, args.k, args.w_stride, warps * kColumns, kDepth, all.weights);
  if (weights != cudaSuccess) return weights;
  const cudaError_t rows = describe(args.x, args.m, args.k, args.x_stride, 8 * kRowTiles, kDepth, all.rows);
  if (rows != cudaSuccess) return rows;
  const auto blocks = static_cast<unsigned>(std::min(all.split.groups, num_blocks));
  const auto bytes = static_cast<std::size_t>(kBeside + all.split.places * piece_bytes);
  return launch_overlapped(many_kernel<kRowTiles>, dim3(blocks), kThreads, bytes, stream, all);
}

template <int kRowTiles>
cudaError_t prepare() {
  // With the most warps and rows, the ring of weights still has two places.
  static_assert(kRowsPlaces * rows_piece_bytes(kRowTiles) + kBarrierBytes + 2 * weights_piece_bytes(kWarps) <=
                kSharedBytes);
  return cudaFuncSetAttribute(many_kernel<kRowTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
}

}  // namespace

cudaError_t launch_linear_stream_many(const LinearArgs& args, int num_blocks, cudaStream_t stream) {
  return args.m <= 16 ? launch<2>(args, num_blocks, stream) : launch<4>(args, num_blocks, stream);
}

cudaError_t prepare_stream_many_kernels() {
  const cudaError_t error = prepare<2>();
  return error != cudaSuccess ? error : prepare<4>();
}

}  // namespace mortise::cuda
