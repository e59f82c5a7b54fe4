// As in linear_stream.cu each warp has tiles of its own (panels of sixteen columns of y), whose weights come to a ring
// of its own, and one more warp tells when the kernels before have ended. Then the warps make q of all rows together,
// while weights arrive.
#include "kernels/cuda/linear_int_stream.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/int_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tensor_map.hpp"
#include "kernels/cuda/weight_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarps = 8, kThreads = (kWarps + 1) * 32;
constexpr int kMostRows = 8;
constexpr int kFewestPlaces = 2, kMostPlaces = 32;  // as in linear_stream.cu
constexpr int kZeroBytes = 16;                      // the rows of b that x does not have
constexpr int kSharedBytes = 203 << 10;             // the rest is for a block of the kernel before or after
constexpr int kEarlyBytes = 48 << 10;               // of weights on their way while the kernels before are at work
constexpr int kAllReady = 1;                        // the named barrier of the warps that multiply

// Which weights: the zero points of symmetric 8-bit ones cost nothing.
enum class Kind { kSymmetric8, kAny8, k4 };
constexpr bool has_zeros(Kind kind) {
  return kind != Kind::kSymmetric8;
}
// Chunks of a piece, even: two sets of fragments take turns. About 4 KiB.
constexpr int piece_chunks(Kind kind) {
  return kind == Kind::k4 ? 4 : 2;
}

struct Split {
  std::int32_t warps;   // of a block that have tiles
  std::int32_t places;  // of a warp's ring
  std::int32_t early;   // pieces that a warp has on their way while the kernels before are at work
};

struct StreamArgs {
  LinearIntArgs linear;
  Split split;
  std::int32_t chunks, chunk_bytes;     // of a panel; of a chunk
  std::int64_t panel_bytes;
  std::int32_t group_sets, row_sets;    // sets of a group, of a row
  const float* scales;                  // one group a row: its scales and zero points
  const std::uint8_t* zeros;
};

// Shared memory: rings, q, zeros, the row's scales, the largest of each warp, the barriers.
__host__ __device__ constexpr std::int32_t row_pitch(std::int32_t chunks) {
  return chunks * kIntChunk + 16;  // ldmatrix of 8 rows meets all banks
}
__host__ __device__ constexpr std::int32_t bytes_of_rows(std::int64_t m, std::int32_t chunks) {
  return static_cast<std::int32_t>(m) * row_pitch(chunks) + kZeroBytes;
}
__host__ __device__ constexpr std::int32_t bytes_beside_rings(std::int64_t m, std::int32_t chunks) {
  return bytes_of_rows(m, chunks) + kMostRows * 4 + kWarps * 4 + 8 + kWarps * kMostPlaces * 8;
}

// The pieces of a warp's tiles in the order in which they are used. One lane has this.
template <Kind kKind>
class Pieces {
 public:
  __device__ Pieces(const StreamArgs& args, int first_tile, int tiles, int stride)
      : args_(args),
        from_(args.linear.w + args.linear.first_column / kIntPanel * args.panel_bytes),
        tile_(first_tile),
        tiles_(tiles),
        stride_(stride),
        policy_(policy_of_what_is_read_once()) {}

  __device__ __forceinline__ bool ended() const { return tile_ >= tiles_; }

  __device__ __forceinline__ void load(std::uint32_t to, std::uint32_t barrier) {
    const int bytes = min(piece_chunks(kKind), args_.chunks - chunk_) * args_.chunk_bytes;
    expect_bytes(barrier, bytes);
    copy_bulk(to, from_ + tile_ * args_.panel_bytes + chunk_ * args_.chunk_bytes, bytes, barrier, policy_);
    chunk_ += piece_chunks(kKind);
    if (chunk_ >= args_.chunks) chunk_ = 0, tile_ += stride_;
  }

 private:
  const StreamArgs& args_;
  const std::byte* from_;
  int tile_;
  const int tiles_, stride_;
  std::uint64_t policy_;
  int chunk_ = 0;
};

__device__ __forceinline__ uint4 load_sixteen(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ float load_scale(std::uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ int load_zero(std::uint32_t address) {
  std::uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return static_cast<int>(v);
}

// What a lane has of a chunk. Its rows of w are g and g + 8, g = lane / 4.
template <Kind kKind, int kSets>
struct Fragments {
  static constexpr int kVectors = kKind == Kind::k4 ? 2 : 4;
  uint4 w[kVectors];
  std::uint32_t x[2][4];
  float scale[kSets > 0 ? kSets : 1][2];
  int zero[kSets > 0 ? kSets : 1][2];

  __device__ __forceinline__ void load(std::uint32_t chunk, std::uint32_t from_x, std::uint32_t x_step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) load_matrices(x[i], from_x + x_step * i * 2 * kIntStep);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) w[i] = load_sixteen(chunk + i * 512 + lane * 16);
#pragma unroll
    for (int i = 0; i < kSets; ++i) {
      const std::uint32_t set = chunk + kVectors * 512 + i * kIntSetBytes;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        scale[i][half] = load_scale(set + (lane / 4 + 8 * half) * 4);
        if constexpr (has_zeros(kKind)) zero[i][half] = load_zero(set + 4 * kIntPanel + lane / 4 + 8 * half);
      }
    }
  }
};

// Sums of a group: of q * value and, for zero points, of q, both over even and odd steps apart so that no instruction
// waits for the one before it; and the row's, in f32.
template <Kind kKind>
class Sums {
 public:
  template <int kSets>
  __device__ __forceinline__ void add(const Fragments<kKind, kSets>& f, int step) {
    const uint4& v = f.w[kKind == Kind::k4 ? step / 2 : step];
    std::uint32_t a[4] = {v.x, v.y, v.z, v.w};
    if constexpr (kKind == Kind::k4) {
#pragma unroll
      for (std::uint32_t& word : a) word = (step % 2 == 0 ? word : word >> 4) & 0x0f0f0f0fu;
    }
    const std::uint32_t b[2] = {f.x[step / 2][step % 2 * 2], f.x[step / 2][step % 2 * 2 + 1]};
    mma_m16n8k32(dot_[step % 2], a, b);
    if constexpr (has_zeros(kKind)) {
      constexpr std::uint32_t kOnes[4] = {0x01010101u, 0x01010101u, 0x01010101u, 0x01010101u};
      mma_m16n8k32(sum_[step % 2], kOnes, b);
    }
  }

  __device__ __forceinline__ void end_group(const float (&scale)[2], const int (&zero)[2]) {
    constexpr int kOffset = kKind == Kind::k4 ? 0 : 128;  // bytes are value - 128
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int dot = dot_[0][j] + dot_[1][j];
      if constexpr (has_zeros(kKind)) dot -= (zero[j / 2] - kOffset) * (sum_[0][j] + sum_[1][j]);
      acc_[j] = __fadd_rn(acc_[j], __fmul_rn(__int2float_rn(dot), scale[j / 2]));
      dot_[0][j] = dot_[1][j] = sum_[0][j] = sum_[1][j] = 0;
    }
  }

  __device__ __forceinline__ void write(const LinearIntArgs& args, int tile, const float* row_scales) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t n = static_cast<std::int64_t>(tile) * kIntPanel + lane / 4 + j / 2 * 8;
      const int m = lane % 4 * 2 + j % 2;
      if (n >= args.n || m >= args.m) continue;
      float y = __fmul_rn(acc_[j], row_scales[m]);
      if (args.bias != nullptr) y = __fadd_rn(y, args.bias[n]);
      if (args.y_type == ElementType::kBf16) {
        put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
      } else {
        put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
      }
    }
  }

 private:
  std::int32_t dot_[2][4] = {}, sum_[2][4] = {};
  float acc_[4] = {};
};

__device__ __forceinline__ void wait_for_warps() {
  asm volatile("bar.sync %0, %1;" ::"n"(kAllReady), "n"(kWarps * 32) : "memory");
}

// q of all rows and their scales, by all warps: 8, 4, 2 or 1 of them a row.
__device__ __forceinline__ void quantise_rows(const StreamArgs& args, char* q, float* scales, std::uint32_t* largest) {
  const int m = static_cast<int>(args.linear.m), warp = static_cast<int>(threadIdx.x) / 32;
  const int team = m == 1 ? 8 : m == 2 ? 4 : m <= 4 ? 2 : 1;
  const int row = warp / team, vectors = args.chunks * (kIntChunk / 8);
  const int first = static_cast<int>(threadIdx.x) - row * team * 32;
  const IntRow x(args.linear, row < m ? row : 0);
  if (row < m) {
    std::uint32_t most = 0;
#pragma unroll 4
    for (int i = first; i < vectors; i += team * 32) most = max(most, largest_of(x.eight(i)));
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) largest[warp] = most;
  }
  wait_for_warps();
  if (row < m) {
    std::uint32_t most = 0;
    for (int i = 0; i < team; ++i) most = max(most, largest[row * team + i]);
    const IntRowScale scale = scale_of(most);
    if (first == 0) scales[row] = scale.scale;
    char* const to = q + row * row_pitch(args.chunks);
#pragma unroll 4
    for (int i = first; i < vectors; i += team * 32) {
      *reinterpret_cast<uint2*>(to + 8 * i) = quantised(x.eight(i), scale.inverse);
    }
  }
  wait_for_warps();
}

// kSetsOfChunk: 0 is one group a row.
template <Kind kKind, int kSetsOfChunk>
__global__ void __launch_bounds__(kThreads, 1) int_stream_kernel(const __grid_constant__ StreamArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const LinearIntArgs& linear = args.linear;
  const int m = static_cast<int>(linear.m), chunks = args.chunks;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int tiles = static_cast<int>((linear.n + kIntPanel - 1) / kIntPanel);
  const int stride = args.split.warps * static_cast<int>(gridDim.x);
  const int first = warp < args.split.warps ? warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x) : tiles;
  const int piece_bytes = piece_chunks(kKind) * args.chunk_bytes, ring_bytes = args.split.places * piece_bytes;
  char* const rows = memory + args.split.warps * ring_bytes;
  float* const row_scales = reinterpret_cast<float*>(rows + bytes_of_rows(m, chunks));
  auto* const largest = reinterpret_cast<std::uint32_t*>(row_scales + kMostRows);
  const std::uint32_t at = shared_address(memory), rows_at = shared_address(rows);
  const std::uint32_t ended = shared_address(largest + kWarps), barriers = ended + 8;
  const Place ring = {at + warp * ring_bytes, barriers + warp * kMostPlaces * 8, args.split.places, piece_bytes};

  if (warp < kWarps && lane < args.split.places) make_barrier(ring.barriers + lane * 8, 1);
  if (threadIdx.x == 0) {
    make_barrier(ended, 1);
    *reinterpret_cast<uint4*>(rows + m * row_pitch(chunks)) = uint4{0, 0, 0, 0};
  }
  publish_barriers();
  __syncthreads();
  if (warp == kWarps) {
    wait_for_kernel_before();
    if (lane == 0) arrive(ended);
    return;
  }
  // Weights depend on no other kernel.
  Feeder<Pieces<kKind>> feeder(Pieces<kKind>(args, first, tiles, stride), ring);
  if (lane == 0) feeder.fill_gently(args.split.early, ended);
  __syncwarp();
  wait_for_kernel_before();
  quantise_rows(args, rows, row_scales, largest);
  if (first >= tiles) return;

  // Where this lane's rows begin for ldmatrix: row lane % 8, sixteen columns lane / 8. Rows that x has not are zeros.
  const bool has_row = lane % 8 < m;
  const std::uint32_t x = rows_at + (has_row ? lane % 8 * row_pitch(chunks) + lane / 8 * 16 : m * row_pitch(chunks));
  const std::uint32_t x_step = has_row ? 1 : 0;
  Place place = ring;
  std::uint32_t piece;
  const auto wait_for_piece = [&] {
    wait_barrier(place.barrier(), place.phase);
    piece = place.piece();
    place.advance();
  };
  // The fragments of the next chunk, of the next piece too, are loaded before this chunk's products.
  Fragments<kKind, kSetsOfChunk> fragments[2];
  wait_for_piece();
  fragments[0].load(piece, x, x_step);
#pragma unroll 1
  for (int tile = first; tile < tiles; tile += stride) {
    Sums<kKind> sums;
    float scale[2] = {};
    int zero[2] = {};
    if constexpr (kSetsOfChunk == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t n = linear.first_column + tile * kIntPanel + lane / 4 + 8 * half;
        scale[half] = args.scales[n];
        if constexpr (has_zeros(kKind)) zero[half] = args.zeros[n];
      }
    }
    int sets_left = args.group_sets, set = 0;
#pragma unroll 1
    for (int begin = 0; begin < chunks; begin += piece_chunks(kKind)) {
#pragma unroll
      for (int i = 0; i < piece_chunks(kKind); ++i) {
        Fragments<kKind, kSetsOfChunk>& next = fragments[(i + 1) % 2];
        const int chunk = begin + i;
        if (i + 1 < piece_chunks(kKind)) {
          if (chunk + 1 < chunks) {
            next.load(piece + (i + 1) * args.chunk_bytes, x + x_step * (chunk + 1) * kIntChunk, x_step);
          }
        } else {
          __syncwarp();  // all lanes have read the piece
          if (lane == 0) feeder.refill();
          const bool same_tile = chunk + 1 < chunks;
          if (same_tile || tile + stride < tiles) {
            wait_for_piece();
            next.load(piece, same_tile ? x + x_step * (chunk + 1) * kIntChunk : x, x_step);
          }
        }
        if (chunk >= chunks) continue;
        const Fragments<kKind, kSetsOfChunk>& here = fragments[i % 2];
#pragma unroll
        for (int step = 0; step < kIntSteps; ++step) {
          sums.add(here, step);
          if constexpr (kSetsOfChunk > 0) {
            constexpr int kSteps = kIntSteps / kSetsOfChunk;
            if ((step + 1) % kSteps != 0) continue;
            // Sets beyond the row's last belong to no group.
            --sets_left, ++set;
            if (set <= args.row_sets && (sets_left == 0 || set == args.row_sets)) {
              sums.end_group(here.scale[step / kSteps], here.zero[step / kSteps]);
              sets_left = args.group_sets;
            }
          }
        }
      }
    }
    if constexpr (kSetsOfChunk == 0) sums.end_group(scale, zero);
    sums.write(linear, tile, row_scales);
  }
}

std::int64_t num_tiles(const LinearIntArgs& args) {
  return (args.n + kIntPanel - 1) / kIntPanel;
}

Kind kind_of(const LinearIntArgs& args) {
  return args.format.bits == 4 ? Kind::k4 : args.symmetric ? Kind::kSymmetric8 : Kind::kAny8;
}

// As many warps as take the same number of tiles, as far as it goes; fewer where x leaves little for their rings.
Split split_of(const LinearIntArgs& args, int num_blocks) {
  const IntLayout layout(args.format);
  const std::int64_t piece_bytes = piece_chunks(kind_of(args)) * layout.chunk_bytes;
  const std::int64_t of_a_block = (num_tiles(args) + num_blocks - 1) / num_blocks;
  const std::int64_t pieces =
      (kSharedBytes - bytes_beside_rings(args.m, static_cast<std::int32_t>(layout.chunks))) / piece_bytes;
  Split split;
  std::int64_t rounds = (of_a_block + kWarps - 1) / kWarps;
  do {
    const std::int64_t warps = (of_a_block + rounds - 1) / rounds;
    split = {static_cast<std::int32_t>(warps),
             static_cast<std::int32_t>(std::min<std::int64_t>(pieces / warps, kMostPlaces)),
             std::max(static_cast<std::int32_t>(kEarlyBytes / piece_bytes / warps), 1)};
    rounds = warps == 1 ? rounds : (of_a_block + warps - 2) / (warps - 1);
  } while (split.places < kFewestPlaces && split.warps > 1);
  return split;
}

using Kernel = void (*)(StreamArgs);
template <Kind kKind>
Kernel kernel_of_span(std::int32_t span) {
  switch (span) {
    case 128: return int_stream_kernel<kKind, 1>;
    case 64: return int_stream_kernel<kKind, 2>;
    case 32: return int_stream_kernel<kKind, 4>;
    default: return int_stream_kernel<kKind, 0>;
  }
}
Kernel kernel_of(Kind kind, std::int32_t span) {
  return kind == Kind::k4            ? kernel_of_span<Kind::k4>(span)
         : kind == Kind::kSymmetric8 ? kernel_of_span<Kind::kSymmetric8>(span)
                                     : kernel_of_span<Kind::kAny8>(span);
}

}  // namespace

bool streams_int(const LinearIntArgs& args) {
  const IntLayout layout(args.format);
  constexpr std::int64_t kMostK = kSharedBytes;
  if (args.m > kMostRows || args.format.k > kMostK) return false;
  if (bytes_beside_rings(args.m, static_cast<std::int32_t>(layout.chunks)) >= kSharedBytes) return false;
  int most = 0;
  return num_multiprocessors(most) == cudaSuccess && split_of(args, most).places >= kFewestPlaces;
}

cudaError_t launch_linear_int_stream(const LinearIntArgs& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const IntLayout layout(args.format);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(num_tiles(args), most));
  StreamArgs all = {};
  all.linear = args;
  all.split = split_of(args, static_cast<int>(blocks));
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.chunk_bytes = static_cast<std::int32_t>(layout.chunk_bytes);
  all.panel_bytes = layout.panel_bytes;
  if (layout.whole) {
    all.scales = reinterpret_cast<const float*>(args.w + layout.scales);
    all.zeros = reinterpret_cast<const std::uint8_t*>(args.w + layout.zeros);
  } else {
    all.group_sets = static_cast<std::int32_t>(args.format.group_size / layout.span);
    all.row_sets = static_cast<std::int32_t>((args.format.k + layout.span - 1) / layout.span);
  }
  const Kind kind = kind_of(args);
  const std::int64_t bytes = all.split.warps * all.split.places * piece_chunks(kind) * layout.chunk_bytes +
                             bytes_beside_rings(args.m, all.chunks);
  return launch_overlapped(kernel_of(kind, layout.span), dim3(blocks), kThreads, static_cast<std::size_t>(bytes),
                           stream, all);
}

cudaError_t prepare_int_stream_kernels() {
  for (const Kind kind : {Kind::kSymmetric8, Kind::kAny8, Kind::k4}) {
    for (const std::int32_t span : {0, 32, 64, 128}) {
      const cudaError_t error = cudaFuncSetAttribute(kernel_of(kind, span), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     kSharedBytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
