// Rows of x are the a operand of the instruction, weights the b operand (eight columns of y, a "tile"), so that narrow
// products still have tiles for several warps. Neighbouring tiles form a "tile group", one for each of a block's
// warps. The weights of a tile group and the rows of x come in pieces along K into two rings, each filled by its own
// warp; the multiplying warps go along K together.
//
// With few warps the chain of dependent products limits the speed, so each warp loads its fragments half a chunk ahead
// and tests its barriers ahead (o of an 8B model: 13 -> 10.5 us on an H100). Keeping a whole row of x in shared memory
// would save 2 % of a product with one row; the kernel does not.
#include "kernels/cuda/linear_fp8_stream.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/weight_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarps = 16;                   // that multiply, at most
constexpr int kThreads = (kWarps + 2) * 32;  // one more warp loads x, another loads weights
constexpr int kTileRows = 16;                // rows of the a operand
constexpr int kPieceChunks = 2, kDepth = kPieceChunks * kFp8Chunk;
constexpr int kMaxPlaces = 32;                                      // in the ring of weights
constexpr int kRowsPlaces = 6;                                      // in the ring of x
constexpr int kFree = kMaxPlaces * 8, kRowsFree = kRowsPlaces * 8;  // from a "full" to its "free" barrier
constexpr int kBarrierBytes = 2 * (kFree + kRowsFree);
constexpr int kSharedBytes = 203 << 10;  // the rest is left for a block of the preceding or following kernel
constexpr int kTogether = 4;             // instructions along K whose fragments are loaded together: half a chunk
static_assert(kTogether * kFp8Step == kFp8Swizzled);

// How a launch divides its work; computed on the host.
struct Split {
  std::int32_t warps;   // that multiply
  std::int32_t groups;  // tile groups, of this many tiles each
  std::int32_t places;  // in the ring of weights
};

struct StreamArgs {
  CUtensorMap rows;  // [m][k]
  LinearFp8Args linear;
  Split split;
  std::int32_t chunks, tiles;
  std::int64_t panel_bytes;
  const float* scales;  // with one scale a row
};

constexpr int kHalfBytes = kTileRows * kFp8Swizzled * 2, kRowsBytes = 2 * kPieceChunks * kHalfBytes;  // of x

// The operands of half a chunk: of a tile of weights, and of sixteen rows of x.
struct Fragments {
  uint4 w;
  std::uint32_t x[kTogether][4];

  // `weights`: the lane's sixteen bytes. `rows`: where the lane's row begins; `unit`: its first 16-byte unit, swizzled.
  __device__ __forceinline__ void load(std::uint32_t weights, std::uint32_t rows, std::uint32_t unit) {
    w = load_sixteen(weights);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) load_matrices(x[i], rows + (unit ^ i * kFp8Step * 2));
  }
  // Calls load(), which loads the next operands, after the first instruction. Called earlier, the first instruction
  // would wait for the next operands too.
  template <class Load>
  __device__ __forceinline__ void multiply(float (&d)[4], const Load& load) const {
    const std::uint32_t words[kTogether] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      std::uint32_t b[2];
      widen_fp8(words[i], b[0], b[1]);
      mma_m16n8k16(d, x[i], b);
      if (i == 0) load();
    }
  }
};

// acc = fma(d, scale, acc); d = 0. The scales are those of the lane's two columns.
__device__ __forceinline__ void end_group(float (&d)[4], const float2& scale, float (&acc)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    acc[j] = __fmaf_rn(d[j], j % 2 == 0 ? scale.x : scale.y, acc[j]);
    d[j] = 0;
  }
}

__device__ __forceinline__ float2 load_two_scales(std::uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}

// Writes the warp's tile.
__device__ __forceinline__ void write(const LinearFp8Args& args, int tile, const float (&acc)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t m = lane / 4 + j / 2 * 8;
    const std::int64_t n = static_cast<std::int64_t>(tile) * kFp8Panel + lane % 4 * 2 + j % 2;
    if (n >= args.n || m >= args.m) continue;
    const float y = args.bias == nullptr ? acc[j] : __fadd_rn(acc[j], args.bias[n]);
    if (args.y_type == ElementType::kBf16) {
      put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
    } else {
      put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
    }
  }
}

// The "free" barrier of the place before the current one.
__device__ __forceinline__ std::uint32_t free_of_last(const Place& place, int free) {
  return place.barriers + (place.at == 0 ? place.places - 1 : place.at - 1) * 8 + free;
}

// Loads a block's pieces of weights in the order of their use. Used by a whole warp; lane i loads tile i of a group. A
// tile that does not exist is another one: its columns are not written.
template <bool kGrouped>
__device__ __forceinline__ void feed_weights(const StreamArgs& args, Place place) {
  constexpr int kChunkBytes = fp8_chunk_bytes(kGrouped);
  const std::uint64_t policy = policy_of_what_is_read_once();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::byte* const first = args.linear.w + args.linear.first_column / kFp8Panel * args.panel_bytes;
  for (int group = static_cast<int>(blockIdx.x); group < args.split.groups; group += static_cast<int>(gridDim.x)) {
    const int tile = min(group * args.split.warps + lane, args.tiles - 1);
    const std::byte* from = first + tile * args.panel_bytes;
    for (int chunk = 0; chunk < args.chunks; chunk += kPieceChunks) {
      const int bytes = min(kPieceChunks, args.chunks - chunk) * kChunkBytes;
      wait_barrier(place.barrier() + kFree, place.phase ^ 1);
      if (lane == 0) expect_bytes(place.barrier(), args.split.warps * bytes);
      __syncwarp();
      if (lane < args.split.warps) {
        copy_bulk(place.piece() + lane * kPieceChunks * kChunkBytes, from, bytes, place.barrier(), policy);
      }
      from += bytes;
      place.advance();
    }
  }
}

// Loads the pieces of x, once for each tile group; used by one lane.
__device__ __forceinline__ void feed_rows(const StreamArgs& args, Place place) {
  for (int group = static_cast<int>(blockIdx.x); group < args.split.groups; group += static_cast<int>(gridDim.x)) {
    for (int chunk = 0; chunk < args.chunks; chunk += kPieceChunks) {
      wait_barrier(place.barrier() + kRowsFree, place.phase ^ 1);
      expect_bytes(place.barrier(), kRowsBytes);
#pragma unroll
      for (int i = 0; i < kDepth / kFp8Swizzled; ++i) {
        copy_piece(place.piece() + i * kHalfBytes, args.rows, chunk * kFp8Chunk + i * kFp8Swizzled, 0, place.barrier());
      }
      place.advance();
    }
  }
}

template <bool kGrouped>
__global__ void __launch_bounds__(kThreads, 1) fp8_stream_kernel(const __grid_constant__ StreamArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  constexpr int kChunkBytes = fp8_chunk_bytes(kGrouped);
  const LinearFp8Args& linear = args.linear;
  const Split& split = args.split;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int piece_bytes = split.warps * kPieceChunks * kChunkBytes;
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
    feed_weights<kGrouped>(args, weights);
    wait_for_kernel_before();
    return;
  }
  wait_for_kernel_before();
  if (warp == kWarps) {
    if (lane != 0) return;
    see_writes();
    feed_rows(args, rows);
    return;
  }
  if (warp >= split.warps) return;

  // For ldmatrix: rows 0-7 and 8-15 at their first eight elements, then at their second eight.
  const std::uint32_t row = lane % 16 * kFp8Swizzled * 2, unit = (lane / 16 ^ lane % 8) * 16;
  const std::uint32_t mine = warp * kPieceChunks * kChunkBytes;
  std::uint32_t w_piece = 0, x_piece = 0, w_free = 0, x_free = 0;
  bool weights_came = false, rows_came = false;
  // Fragments are loaded half a chunk ahead of the products, also across pieces. `half` counts from `chunk`.
  Fragments fragments[2];
  const auto look_for_pieces = [&] {  // so that mostly nothing waits for the answer
    rows_came = has_come_already(rows.barrier(), rows.phase);
    weights_came = has_come_already(weights.barrier(), weights.phase);
  };
  const auto load_half = [&](int half) {
    fragments[half % 2].load(w_piece + half / 2 * kChunkBytes + half % 2 * 512 + lane * 16, x_piece + half * kHalfBytes,
                             unit);
  };
  const auto wait_for_pieces = [&] {
    w_piece = weights.piece() + mine, x_piece = rows.piece() + row;
    if (!rows_came) wait_barrier(rows.barrier(), rows.phase);
    if (!weights_came) wait_barrier(weights.barrier(), weights.phase);
    rows.advance();
    weights.advance();
    load_half(0);
  };
  w_free = weights.barrier() + kFree, x_free = rows.barrier() + kRowsFree;
  wait_for_pieces();
#pragma unroll 1
  for (int group = static_cast<int>(blockIdx.x); group < split.groups; group += static_cast<int>(gridDim.x)) {
    const bool last_group = group + static_cast<int>(gridDim.x) >= split.groups;
    const int tile = group * split.warps + warp;
    float d[4] = {}, acc[4] = {};
    float2 row_scale = {0, 0};
    if (!kGrouped && tile < args.tiles) {
      row_scale = *reinterpret_cast<const float2*>(args.scales + linear.first_column + tile * kFp8Panel + lane % 4 * 2);
    }
#pragma unroll 1
    for (int chunk = 0; chunk < args.chunks; chunk += kPieceChunks) {
      float2 scale[kPieceChunks];
      if constexpr (kGrouped) {
#pragma unroll
        for (int i = 0; i < kPieceChunks; ++i) {
          scale[i] = load_two_scales(w_piece + i * kChunkBytes + kFp8ValueBytes + lane % 4 * 8);
        }
      }
      const bool more = chunk + kPieceChunks < args.chunks || !last_group;
      fragments[0].multiply(d, [&] {
        load_half(1);
        if (more) look_for_pieces();
      });
      if (chunk + 1 < args.chunks) {
        fragments[1].multiply(d, [&] { load_half(2); });
        if constexpr (kGrouped) end_group(d, scale[0], acc);
        fragments[0].multiply(d, [&] { load_half(3); });
      }
      fragments[1].multiply(d, [&] {
        if (more) wait_for_pieces();
      });
      if constexpr (kGrouped) end_group(d, chunk + 1 < args.chunks ? scale[1] : scale[0], acc);
      __syncwarp();  // all lanes have read the pieces, so their places can be refilled
      if (lane == 0) {
        arrive(w_free);
        arrive(x_free);
      }
      w_free = free_of_last(weights, kFree), x_free = free_of_last(rows, kRowsFree);
    }
    if constexpr (!kGrouped) end_group(d, row_scale, acc);
    write(linear, tile, acc);
  }
}

// The number of warps with which the busiest block has the least work. For each tile group x is read again, which
// costs as much as some tiles.
int best_warps(std::int64_t tiles, int num_blocks) {
  int best = 0;
  std::int64_t least = 0;
  for (int warps = 1; warps <= kWarps; ++warps) {
    const std::int64_t groups = (tiles + warps - 1) / warps, rounds = (groups + num_blocks - 1) / num_blocks;
    const std::int64_t cost = rounds * (warps + 2);
    if (best == 0 || cost <= least) best = warps, least = cost;
  }
  return best;
}

template <bool kGrouped>
cudaError_t launch(StreamArgs& all, int num_blocks, cudaStream_t stream) {
  const LinearFp8Args& args = all.linear;
  constexpr int kBeside = kRowsPlaces * kRowsBytes + kBarrierBytes;
  const int warps = best_warps(all.tiles, num_blocks), piece_bytes = warps * kPieceChunks * fp8_chunk_bytes(kGrouped);
  all.split = {warps, (all.tiles + warps - 1) / warps, std::min((kSharedBytes - kBeside) / piece_bytes, kMaxPlaces)};
  const cudaError_t error = describe_fp8_rows(args.x, args.m, args.format.k, args.x_stride, kTileRows, all.rows);
  if (error != cudaSuccess) return error;
  const auto blocks = static_cast<unsigned>(std::min(all.split.groups, num_blocks));
  return launch_overlapped(fp8_stream_kernel<kGrouped>, dim3(blocks), kThreads,
                           static_cast<std::size_t>(kBeside + all.split.places * piece_bytes), stream, all);
}

template <bool kGrouped>
cudaError_t prepare() {
  // With the most warps, the ring of weights still has two places.
  static_assert(kRowsPlaces * kRowsBytes + kBarrierBytes + 2 * kWarps * kPieceChunks * fp8_chunk_bytes(kGrouped) <=
                kSharedBytes);
  return cudaFuncSetAttribute(fp8_stream_kernel<kGrouped>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
}

}  // namespace

cudaError_t launch_linear_fp8_stream(const LinearFp8Args& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  int blocks = 0;
  if (const cudaError_t error = num_multiprocessors(blocks); error != cudaSuccess) return error;
  const Fp8Layout layout(args.format);
  StreamArgs all = {};
  all.linear = args;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.tiles = static_cast<std::int32_t>((args.n + kFp8Panel - 1) / kFp8Panel);
  all.panel_bytes = layout.panel_bytes;
  all.scales = reinterpret_cast<const float*>(args.w + layout.scales);
  return args.format.grouped ? launch<true>(all, blocks, stream) : launch<false>(all, blocks, stream);
}

cudaError_t prepare_fp8_stream_kernels() {
  const cudaError_t error = prepare<true>();
  return error != cudaSuccess ? error : prepare<false>();
}

}  // namespace mortise::cuda
