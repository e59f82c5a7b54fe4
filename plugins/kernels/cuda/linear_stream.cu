// For up to eight rows of x that all fit into shared memory and are short, and many columns of y. Each warp has its own
// tiles, and loads their weights into its own ring in shared memory, piece by piece along K, so that no warp waits for
// another. One more warp loads x. A multiprocessor runs one block. All else: linear_stream_many.cu.
#include "kernels/cuda/linear_stream.hpp"

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_stream.cuh"
#include "kernels/cuda/linear_stream_many.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/weight_ring.cuh"

namespace mortise::cuda {
namespace {

using namespace stream;

constexpr int kWarps = 8, kThreads = (kWarps + 1) * 32;  // one more warp loads x
constexpr int kMaxRows = 8;
constexpr int kDepth = 256;  // elements along K in a piece
constexpr int kPieceBytes = kColumns * kDepth * 2;
constexpr int kGroups = kDepth / kStep / kGroup;
// Places in a warp's ring. With fewer than two, nothing would be in flight while a piece is multiplied. At most 32,
// because each lane initialises one barrier.
constexpr int kMinPlaces = 2, kMaxPlaces = 32;
// More bytes of x go to linear_stream_many.cu, which multiplies the beginning of x while the rest comes: the eight rows
// of an 8B step (64 KiB) are faster there, four rows slower.
constexpr std::int64_t kMaxBytesOfX = 36 << 10;
// With fewer tiles for a multiprocessor, the steps of a tile, which wait for each other, take longer than its weights:
// an 8B model's down, cut for two ranks, takes 18.8 us there instead of 29.
constexpr std::int64_t kMinTiles = 4;
constexpr int kZeroBytes = 16;  // stands for rows of b that x does not have
// Pieces that a block has in flight before the preceding kernels have ended: enough to keep memory busy. With the whole
// ring in flight a norm takes 7 us instead of 4, because its loads queue behind the pieces.
constexpr int kEarlyPieces = 6;

// How a launch divides its work; computed on the host.
struct Split {
  std::int32_t warps;   // warps in a block that have tiles
  std::int32_t places;  // places in a warp's ring
  std::int32_t early;   // pieces that a warp has in flight before the preceding kernels have ended
};

struct StreamArgs {
  CUtensorMap weights;  // [k / kSwizzled][n][kSwizzled]
  LinearArgs linear;
  Split split;
  Activation activation;  // of a gated product
};

// Sixteen columns of y are a "strip". A warp computes the tile of a strip. Of a gated product two neighbouring warps
// share a strip: one computes the gates' tile, the other that of up, whose columns come linear.n / 2 later.
std::int64_t num_strips(const LinearArgs& args, bool gated) {
  return gated ? args.n / (2 * kColumns) : num_tiles(args);
}

// Shared memory holds: rings, x, zeros, the barrier of x, the barriers of the rings.
__host__ __device__ constexpr std::int32_t x_pitch(std::int64_t k) {
  return static_cast<std::int32_t>(k) * 2 + 16;  // so that ldmatrix of 8 rows reads from all banks
}
__host__ __device__ constexpr std::int32_t bytes_of_x(std::int64_t m, std::int64_t k) {
  return static_cast<std::int32_t>(m) * x_pitch(k) + kZeroBytes;
}
__host__ __device__ constexpr std::int32_t bytes_beside_rings(std::int64_t m, std::int64_t k) {
  return bytes_of_x(m, k) + 8 + kWarps * kMaxPlaces * 8;
}

// Where the warp of a strip's up leaves its results for the warp of the gates: two places, used in turn.
using Handover = float4[kWarps / 2][2][32];

// The pieces of a warp's tiles in the order of their use. Used by one lane. Invariant: strip_ and depth_ name the next
// piece.
class Pieces {
 public:
  // `first_tile`: the tile of strip 0.
  __device__ Pieces(const StreamArgs& args, int first_strip, int strips, int stride, int first_tile)
      : args_(args), strip_(first_strip), strips_(strips), stride_(stride), first_tile_(first_tile) {
    policy_ = policy_of_what_is_read_once();
  }

  __device__ __forceinline__ bool ended() const { return strip_ >= strips_; }

  // Requests the next piece. Elements beyond the last row are zeros.
  __device__ __forceinline__ void load(std::uint32_t to, std::uint32_t barrier) {
    expect_bytes(barrier, kPieceBytes);
    copy_piece(to, args_.weights, (first_tile_ + strip_) * kColumns, depth_ / kSwizzled, barrier, policy_);
    depth_ += kDepth;
    if (depth_ >= args_.linear.k) depth_ = 0, strip_ += stride_;
  }

 private:
  const StreamArgs& args_;
  int strip_;
  const int strips_, stride_, first_tile_;
  std::uint64_t policy_;
  int depth_ = 0;
};

// Ends a strip of a gated product: the warp of up hands over its results, and the warp of the gates writes y. Both
// round first, because elementwise.cu reads what a product has stored.
__device__ __forceinline__ void write_gated(const StreamArgs& args, int strip, bool is_up, const float (&d)[4],
                                            Handover& handover, int place) {
  const LinearArgs& linear = args.linear;
  const int pair = static_cast<int>(threadIdx.x) / 64, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t half = linear.n / 2;
  float stored[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t n = static_cast<std::int64_t>(strip) * kColumns + lane / 4 + j / 2 * 8 + (is_up ? half : 0);
    stored[j] = rounded<Bf16>(linear.bias == nullptr ? d[j] : __fadd_rn(d[j], linear.bias[n]));
  }
  if (is_up) handover[pair][place][lane] = {stored[0], stored[1], stored[2], stored[3]};
  // This place is written again after the next barrier of the pair, before which it has been read.
  asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
  if (is_up) return;
  const float4 from_up = handover[pair][place][lane];
  const float up[4] = {from_up.x, from_up.y, from_up.z, from_up.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t n = static_cast<std::int64_t>(strip) * kColumns + lane / 4 + j / 2 * 8;
    const std::int64_t m = lane % 4 * 2 + j % 2;
    if (m >= linear.m) continue;
    put(static_cast<Bf16*>(linear.y)[m * linear.y_stride + n],
        __fmul_rn(rounded<Bf16>(activated(args.activation, stored[j])), up[j]));
  }
}

template <bool kGated>
__global__ void __launch_bounds__(kThreads, 1) stream_kernel(const __grid_constant__ StreamArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const LinearArgs& linear = args.linear;
  const int k = static_cast<int>(linear.k), m = static_cast<int>(linear.m);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kShare = kGated ? 2 : 1;  // warps that share a strip
  const int strips = static_cast<int>((linear.n + kShare * kColumns - 1) / (kShare * kColumns));
  const int stride = args.split.warps / kShare * static_cast<int>(gridDim.x);
  const int first =
      warp < args.split.warps ? warp / kShare * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x) : strips;
  const bool is_up = kGated && warp % 2 != 0;
  const std::uint32_t at = shared_address(memory);
  const std::uint32_t x_at = at + args.split.warps * args.split.places * kPieceBytes;
  const std::uint32_t x_barrier = x_at + bytes_of_x(m, k), barriers = x_barrier + 8;
  const Place ring = {at + warp * args.split.places * kPieceBytes, barriers + warp * kMaxPlaces * 8, args.split.places,
                      kPieceBytes};

  if (warp < kWarps && lane < args.split.places) make_barrier(ring.barriers + lane * 8, 1);
  if (threadIdx.x == 0) {
    make_barrier(x_barrier, 1);
    *reinterpret_cast<uint4*>(memory + (x_at - at) + m * x_pitch(k)) = uint4{0, 0, 0, 0};
  }
  publish_barriers();
  __syncthreads();
  if (warp == kWarps) {
    wait_for_kernel_before();
    if (lane != 0) return;
    see_writes();
    expect_bytes(x_barrier, m * k * 2);
    for (int row = 0; row < m; ++row) {
      copy_bulk(x_at + row * x_pitch(k), linear.x + row * linear.x_stride, k * 2, x_barrier);
    }
    return;
  }
  if (first >= strips) {
    wait_for_kernel_before();
    return;
  }
  // Starts before the preceding kernels have ended, because weights do not depend on them.
  Feeder<Pieces> feeder(Pieces(args, first, strips, stride, is_up ? strips : 0), ring);
  if (lane == 0) feeder.fill_gently(args.split.early, x_barrier);
  __syncwarp();
  wait_for_kernel_before();
  wait_barrier(x_barrier, 0);

  // The addresses that this lane passes to ldmatrix. For x: row lane % 8, starting at element 8 (lane / 8); lanes of
  // missing rows point at the zeros. For a piece of weights: row lane % 16, starting at element 8 (lane / 16); its
  // units of 16 bytes are swizzled.
  const bool has_row = lane % 8 < m;
  const std::uint32_t x = x_at + (has_row ? lane % 8 * x_pitch(k) + lane / 8 * 16 : m * x_pitch(k));
  const std::uint32_t x_step = has_row ? 1 : 0;
  const std::uint32_t row = lane % 16 * kSwizzled * 2, unit = (lane / 16 ^ lane % 8) * 16;
  Place place = ring;
  std::uint32_t piece;
  const auto wait_for_piece = [&] {
    wait_barrier(place.barrier(), place.phase);
    piece = place.piece() + row;
    place.advance();
  };
  // Fragments (of kGroup instructions) are loaded one ahead of the products, also across pieces.
  Fragments fragments[2];
  wait_for_piece();
  fragments[0].load(piece, unit, x, x_step, 0);
  int handover_place = 0;
#pragma unroll 1
  for (int strip = first; strip < strips; strip += stride) {
    float d[4] = {};
#pragma unroll 1
    for (int depth = 0; depth < k; depth += kDepth) {
      const std::uint32_t x_here = x + x_step * depth * 2;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        Fragments& next = fragments[(group + 1) % 2];
        if (group + 1 < kGroups) {
          next.load(piece, unit, x_here, x_step, group + 1);
        } else {
          __syncwarp();  // all lanes have read the piece, so its place can be refilled
          if (lane == 0) feeder.refill();
          const bool same_tile = depth + kDepth < k;
          if (same_tile || strip + stride < strips) {
            wait_for_piece();
            next.load(piece, unit, same_tile ? x_here + x_step * kDepth * 2 : x, x_step, 0);
          }
        }
        if (depth + group * kSwizzled < k) fragments[group % 2].multiply(d);
      }
    }
    if constexpr (kGated) {
      __shared__ Handover handover;
      write_gated(args, strip, is_up, d, handover, handover_place);
      handover_place = 1 - handover_place;
    } else {
      write(linear, strip, 0, d);
    }
  }
}

// Chooses the number of warps so that all have the same number of tiles if possible, and fewer if x leaves little room
// for the rings. `share`: warps that share a strip.
Split split_of(const LinearArgs& args, std::int64_t strips, int num_blocks, int share) {
  const std::int64_t of_a_block = (strips + num_blocks - 1) / num_blocks, most = kWarps / share;
  const std::int64_t pieces = (kSharedBytes - bytes_beside_rings(args.m, args.k)) / kPieceBytes;
  Split split;
  std::int64_t rounds = (of_a_block + most - 1) / most;
  do {
    const std::int64_t groups = (of_a_block + rounds - 1) / rounds, warps = groups * share;
    split = {static_cast<std::int32_t>(warps),
             static_cast<std::int32_t>(std::min<std::int64_t>(pieces / warps, kMaxPlaces)),
             std::max(kEarlyPieces / static_cast<std::int32_t>(warps), 1)};
    rounds = groups == 1 ? rounds : (of_a_block + groups - 2) / (groups - 1);
  } while (split.places < kMinPlaces && split.warps > share);
  return split;
}

// Whether x fits into shared memory beside rings of at least two places.
bool holds_x(const LinearArgs& args, std::int64_t strips, int num_blocks, int share) {
  constexpr std::int64_t kMaxK = kSharedBytes / 2;
  return args.m <= kMaxRows && args.k <= kMaxK && split_of(args, strips, num_blocks, share).places >= kMinPlaces;
}

int num_blocks(std::int64_t strips, int multiprocessors) {
  return static_cast<int>(std::min<std::int64_t>(strips, multiprocessors));
}

// REQUIRES: holds_x.
template <bool kGated>
cudaError_t launch(const LinearArgs& args, Activation activation, int blocks, cudaStream_t stream) {
  StreamArgs all = {{}, args, split_of(args, num_strips(args, kGated), blocks, kGated ? 2 : 1), activation};
  const cudaError_t error = describe(args.w, args.n, args.k, args.w_stride, kColumns, kDepth, all.weights);
  if (error != cudaSuccess) return error;
  const int bytes = all.split.warps * all.split.places * kPieceBytes + bytes_beside_rings(args.m, args.k);
  return launch_overlapped(stream_kernel<kGated>, dim3(static_cast<unsigned>(blocks)), kThreads,
                           static_cast<std::size_t>(bytes), stream, all);
}

cudaError_t allow_shared_memory(void (*kernel)(StreamArgs)) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
}

}  // namespace

bool streams(const LinearArgs& args) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.w);
  const bool aligned = addresses % 16 == 0 && args.x_stride % 8 == 0 && args.w_stride % 8 == 0;
  int most = 0;
  return aligned && args.m <= kMaxStreamedRows && args.k > 0 && args.k % kSwizzled == 0 &&
         num_multiprocessors(most) == cudaSuccess;
}

bool streams_gated(const LinearArgs& args) {
  int most = 0;
  if (args.y_type != ElementType::kBf16 || args.n % (2 * kColumns) != 0 || !streams(args)) return false;
  const std::int64_t strips = num_strips(args, /*gated=*/true);
  return strips > 0 && num_multiprocessors(most) == cudaSuccess &&
         holds_x(args, strips, num_blocks(strips, most), /*share=*/2);
}

cudaError_t launch_linear_stream(const LinearArgs& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const std::int64_t strips = num_strips(args, /*gated=*/false);
  const int blocks = num_blocks(strips, most);
  if (strips < kMinTiles * most || args.m * args.k * 2 > kMaxBytesOfX || !holds_x(args, strips, blocks, /*share=*/1)) {
    return launch_linear_stream_many(args, most, stream);
  }
  return launch<false>(args, Activation::kRelu, blocks, stream);
}

cudaError_t launch_gated_stream(const LinearArgs& args, Activation activation, cudaStream_t stream) {
  if (args.m == 0) return cudaSuccess;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  return launch<true>(args, activation, num_blocks(num_strips(args, /*gated=*/true), most), stream);
}

cudaError_t prepare_stream_kernel() {
  for (const auto kernel : {stream_kernel<false>, stream_kernel<true>}) {
    if (const cudaError_t error = allow_shared_memory(kernel); error != cudaSuccess) return error;
  }
  return prepare_stream_many_kernels();
}

}  // namespace mortise::cuda
