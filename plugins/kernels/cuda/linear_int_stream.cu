// Weights come to rings of single warps in shared memory, as in linear_stream.cu, and one more warp waits for the
// preceding kernels. A team of warps computes a tile (a panel of sixteen columns of y) by taking its pieces in turn: a
// block has few tiles, and a single warp per tile would wait for its own results. The team's sums meet in shared
// memory: integers with one group a row, otherwise the terms of all groups, which the team's first warp adds in order.
#include "kernels/cuda/linear_int_stream.hpp"

#include <algorithm>

#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/int_rows.cuh"
#include "kernels/cuda/int_rows.hpp"
#include "kernels/cuda/int_sums.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_map.hpp"
#include "kernels/cuda/weight_ring.cuh"

namespace mortise::cuda {
namespace {

// Multiplying warps of a block. Together with the waiting warp they may have 128 registers per thread. Fewer warps
// would leave schedulers idle.
constexpr int kWarps = 15, kThreads = (kWarps + 1) * 32;
constexpr int kMaxTiles = 2;                    // tiles of rows
constexpr int kMinPlaces = 2, kMaxPlaces = 32;  // as in linear_stream.cu
constexpr int kZeroBytes = 16;                  // stands for rows of b that x does not have
constexpr int kSharedBytes = 203 << 10;         // leaves room for a block of the preceding or following kernel
constexpr int kEarlyBytes = 48 << 10;           // bytes of weights in flight before the preceding kernels have ended
constexpr int kMaxTermBytes = 64 << 10;         // bytes of the teams' sums
// If fewer warps are busy, linear_int_wide is faster (H100, shapes of an 8B model).
constexpr int kMinWarps = 4, kMinWarpsForTwoTiles = 6;
// Named barriers: one for all multiplying warps, one for the first team (each further team has the next number).
constexpr int kAllReady = 1, kTeams = 2;

struct Split {
  std::int32_t teams;   // teams in a block: tiles that it computes at a time
  std::int32_t team;    // warps in a team
  std::int32_t places;  // places in a warp's ring
  std::int32_t early;   // pieces that a warp has in flight before the preceding kernels have ended
  std::int32_t terms;   // numbers per element of the tile that a team keeps; 0: a single warp
};

struct StreamArgs {
  LinearIntArgs linear;
  Split split;
  std::int32_t chunks, chunk_bytes;  // chunks in a panel; bytes of a chunk
  std::int64_t panel_bytes;
  const float* scales;  // scales and zeros: used only with one group a row
  const std::uint8_t* zeros;
  IntRows rows;  // null if x has one row
};

// Shared memory holds: rings, q, zeros, terms, the row's scale, the largest magnitude of each warp, the barriers.
__host__ __device__ constexpr std::int32_t row_pitch(std::int32_t chunks) {
  return chunks * kIntChunk + 16;  // so that ldmatrix of 8 rows reads from all banks
}
__host__ __device__ constexpr std::int32_t bytes_of_rows(std::int64_t m, std::int32_t chunks) {
  return static_cast<std::int32_t>(m) * row_pitch(chunks) + kZeroBytes;
}
// Per team.
__host__ __device__ constexpr std::int32_t bytes_of_terms(std::int32_t terms, std::int64_t m) {
  return terms * kIntPanel * static_cast<std::int32_t>(m) * 4;
}
constexpr int kLargest = (kWarps + 1) / 2 * 2;  // followed by barriers, at multiples of 8 bytes
constexpr std::int32_t kBarrierBytes = 16 + kLargest * 4 + 8 + kWarps * kMaxPlaces * 8;

// The pieces of a warp in the order of their use: every team-th piece of a tile, tile after tile. Used by one lane.
// Invariant: tile_ and chunk_ name the next piece.
template <int kPieceChunks>
class Pieces {
 public:
  __device__ Pieces(const StreamArgs& args, int member, int first_tile, int tiles, int stride)
      : args_(args),
        from_(args.linear.w + args.linear.first_column / kIntPanel * args.panel_bytes),
        first_chunk_(member * kPieceChunks),
        tile_(first_tile),
        tiles_(tiles),
        stride_(stride),
        policy_(policy_of_what_is_read_once()),
        chunk_(first_chunk_) {}

  __device__ __forceinline__ bool ended() const { return tile_ >= tiles_; }

  __device__ __forceinline__ void load(std::uint32_t to, std::uint32_t barrier) {
    const int bytes = min(kPieceChunks, args_.chunks - chunk_) * args_.chunk_bytes;
    expect_bytes(barrier, bytes);
    copy_bulk(to, from_ + tile_ * args_.panel_bytes + chunk_ * args_.chunk_bytes, bytes, barrier, policy_);
    chunk_ += kPieceChunks * args_.split.team;
    if (chunk_ >= args_.chunks) chunk_ = first_chunk_, tile_ += stride_;
  }

 private:
  const StreamArgs& args_;
  const std::byte* from_;
  const int first_chunk_;
  int tile_;
  const int tiles_, stride_;
  std::uint64_t policy_;
  int chunk_;
};

__device__ __forceinline__ void wait_for_warps(int barrier, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(warps * 32) : "memory");
}

// The team's first warp adds the terms that all its warps have left.
__device__ __forceinline__ void add_terms(const StreamArgs& args, int tile, const char* terms, const float* row_scales,
                                          bool integers) {
  const int m = static_cast<int>(args.linear.m), elements = kIntPanel * m;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < elements; i += 32) {
    const int column = i / m, row = i % m;
    float sum = 0;
    if (integers) {
      int dot = 0;
      for (int term = 0; term < args.split.terms; ++term)
        dot += reinterpret_cast<const int*>(terms)[term * elements + i];
      sum = __fadd_rn(
          0.0f, __fmul_rn(__int2float_rn(dot), args.scales[args.linear.first_column + tile * kIntPanel + column]));
    } else {
#pragma unroll 8
      for (int term = 0; term < args.split.terms; ++term) {
        sum = __fadd_rn(sum, reinterpret_cast<const float*>(terms)[term * elements + i]);
      }
    }
    write_one(args.linear, tile, column, row, sum, row_scales);
  }
}

// kSetsOfChunk: 0 means one group a row.
template <Kind kKind, int kSetsOfChunk, int kTiles>
__global__ void __launch_bounds__(kThreads, 1) int_stream_kernel(const __grid_constant__ StreamArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const LinearIntArgs& linear = args.linear;
  const int m = static_cast<int>(linear.m), chunks = args.chunks, team = args.split.team;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int tiles = static_cast<int>((linear.n + kIntPanel - 1) / kIntPanel);
  const int team_index = warp / team, member = warp % team, stride = args.split.teams * static_cast<int>(gridDim.x);
  const int first =
      team_index < args.split.teams ? team_index * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x) : tiles;
  constexpr int kPieceChunks = piece_chunks(kKind);
  constexpr int kSteps = kSetsOfChunk == 0 ? kIntSteps : kIntSteps / kSetsOfChunk;  // steps in a set, which is a group
  const int piece_bytes = kPieceChunks * args.chunk_bytes, ring_bytes = args.split.places * piece_bytes;
  char* const rows = memory + args.split.teams * team * ring_bytes;
  char* const terms = rows + bytes_of_rows(m, chunks) + team_index * bytes_of_terms(args.split.terms, m);
  auto* const row_scale = reinterpret_cast<float*>(rows + bytes_of_rows(m, chunks) +
                                                   args.split.teams * bytes_of_terms(args.split.terms, m));
  auto* const largest = reinterpret_cast<std::uint32_t*>(row_scale + 4);
  const std::uint32_t at = shared_address(memory), rows_at = shared_address(rows);
  const std::uint32_t rows_came = shared_address(largest + kLargest), barriers = rows_came + 8;
  const Place ring = {at + warp * ring_bytes, barriers + warp * kMaxPlaces * 8, args.split.places, piece_bytes};

  if (warp < kWarps && lane < args.split.places) make_barrier(ring.barriers + lane * 8, 1);
  if (threadIdx.x == 0) {
    make_barrier(rows_came, 1);
    *reinterpret_cast<uint4*>(rows + m * row_pitch(chunks)) = uint4{0, 0, 0, 0};
  }
  publish_barriers();
  __syncthreads();
  if (warp == kWarps) {
    wait_for_kernel_before();
    if (lane != 0) return;
    if (args.rows.q == nullptr) {
      arrive(rows_came);
      return;
    }
    see_writes();
    expect_bytes(rows_came, m * chunks * kIntChunk);
    for (int row = 0; row < m; ++row) {
      copy_bulk(rows_at + row * row_pitch(chunks), args.rows.q + row * args.rows.row_bytes, chunks * kIntChunk,
                rows_came);
    }
    return;
  }
  // Starts before the preceding kernels have ended, because weights do not depend on them.
  Feeder<Pieces<kPieceChunks>> feeder(Pieces<kPieceChunks>(args, member, first, tiles, stride), ring);
  if (lane == 0) feeder.fill_gently(args.split.early, rows_came);
  __syncwarp();
  wait_for_kernel_before();
  if (args.rows.q == nullptr) {
    const int vectors = chunks * (kIntChunk / 8);
    const auto put = [rows, vectors](int i, const uint2& q) {
      if (i < vectors) *reinterpret_cast<uint2*>(rows + 8 * i) = q;
    };
    quantize_row_together<kWarps, kAllReady>(IntRow(linear, 0), vectors, row_scale, largest, put);
  }
  if (first >= tiles) return;
  wait_barrier(rows_came, 0);
  const float* const row_scales = args.rows.q == nullptr ? row_scale : args.rows.scales;

  // Where this lane's rows begin for ldmatrix: row lane % 8, sixteen columns from lane / 8 on. Rows that x does not
  // have are zeros.
  std::uint32_t x[kTiles], has_row = 0;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int row = tile * kTileRows + lane % 8;
    x[tile] = rows_at + (row < m ? row * row_pitch(chunks) + lane / 8 * 16 : m * row_pitch(chunks));
    if (row < m) has_row |= 1u << tile;
  }
  Place place = ring;
  std::uint32_t piece;
  const auto wait_for_piece = [&] {
    wait_barrier(place.barrier(), place.phase);
    piece = place.piece();
    place.advance();
  };
  // Fragments are loaded one chunk ahead of the products, also across pieces.
  const int first_chunk = member * kPieceChunks, piece_step = team * kPieceChunks;
  Fragments<kKind, kSetsOfChunk, kTiles> fragments[2];
  RowFragments<kTiles> pair;
  wait_for_piece();
  fragments[0].load(piece, x, has_row, first_chunk * kIntChunk);
#pragma unroll 1
  for (int tile = first; tile < tiles; tile += stride) {
    Sums<kKind, kTiles> sums;
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
#pragma unroll 1
    for (int begin = first_chunk; begin < chunks; begin += piece_step) {
      float* group_terms = reinterpret_cast<float*>(terms) + begin * kSetsOfChunk * kIntPanel * m;
#pragma unroll
      for (int i = 0; i < kPieceChunks; ++i) {
        Fragments<kKind, kSetsOfChunk, kTiles>& next = fragments[(i + 1) % 2];
        const int chunk = begin + i;
        if (i + 1 < kPieceChunks) {
          if (chunk + 1 < chunks) {
            next.load(piece + (i + 1) * args.chunk_bytes, x, has_row, (chunk + 1) * kIntChunk);
          }
        } else {
          __syncwarp();  // all lanes have read the piece, so its place can be refilled
          if (lane == 0) feeder.refill();
          const bool same_tile = begin + piece_step < chunks;
          if (same_tile || tile + stride < tiles) {
            wait_for_piece();
            next.load(piece, x, has_row, (same_tile ? begin + piece_step : first_chunk) * kIntChunk);
          }
        }
        if (chunk >= chunks) continue;
        const Fragments<kKind, kSetsOfChunk, kTiles>& here = fragments[i % 2];
#pragma unroll
        for (int step = 0; step < kIntSteps; ++step) {
          if constexpr (kTiles == 1) {
            sums.add(here, here.x[step / 2], step, step % kSteps);
          } else {
            if (step % 2 == 0) pair.load(x, has_row, chunk * kIntChunk + step * kIntStep);
            sums.add(here, pair, step, step % kSteps);
          }
          if (kSetsOfChunk == 0 || (step + 1) % kSteps != 0) continue;
          const int set = step / kSteps;
          if (team == 1) {
            sums.template end_group<kSteps>(here.scale[set], here.zero[set]);
          } else {
            sums.template leave_terms<kSteps>(here.scale[set], here.zero[set], group_terms, m);
            group_terms += kIntPanel * m;
          }
        }
      }
    }
    if (team == 1) {
      if constexpr (kSetsOfChunk == 0) sums.template end_group<kSteps>(scale, zero);
      sums.write(linear, tile, row_scales);
      continue;
    }
    if constexpr (kSetsOfChunk == 0) {
      sums.template leave_integers<kSteps>(zero, reinterpret_cast<int*>(terms) + member * kIntPanel * m, m);
    }
    wait_for_warps(kTeams + team_index, team);
    if (member == 0) add_terms(args, tile, terms, row_scales, kSetsOfChunk == 0);
    if (tile + stride < tiles) wait_for_warps(kTeams + team_index, team);
  }
}

std::int64_t num_tiles(const LinearIntArgs& args) {
  return (args.n + kIntPanel - 1) / kIntPanel;
}

Kind kind_of(const LinearIntArgs& args) {
  return args.format.bits == 4 ? Kind::k4 : args.symmetric ? Kind::kSymmetric8 : Kind::kAny8;
}

std::int64_t sets_of(const IntLayout& layout) {
  return layout.whole ? 0 : kIntChunk / layout.column_group;
}

// For `teams` teams, as many warps per team (a power of two) as shared memory allows: each warp needs pieces and two
// places, and there must be room for the terms.
Split split_in_teams(const LinearIntArgs& args, const IntLayout& layout, std::int64_t teams) {
  const std::int64_t piece = piece_chunks(kind_of(args)), piece_bytes = piece * layout.chunk_bytes;
  const std::int64_t pieces = (layout.chunks + piece - 1) / piece;
  const std::int64_t left =
      kSharedBytes - kBarrierBytes - bytes_of_rows(args.m, static_cast<std::int32_t>(layout.chunks));
  for (std::int32_t team = 8;; team /= 2) {
    const auto terms = static_cast<std::int32_t>(team == 1 ? 0 : layout.whole ? team : layout.chunks * sets_of(layout));
    const std::int64_t term_bytes = teams * bytes_of_terms(terms, args.m), warps = teams * team;
    const std::int64_t places = std::min<std::int64_t>((left - term_bytes) / (piece_bytes * warps), kMaxPlaces);
    const bool fits = warps <= kWarps && pieces >= team && term_bytes <= kMaxTermBytes && places >= kMinPlaces;
    if (!fits && team > 1) continue;
    return {static_cast<std::int32_t>(teams), team, static_cast<std::int32_t>(places),
            static_cast<std::int32_t>(std::max<std::int64_t>(kEarlyBytes / (piece_bytes * warps), 1)), terms};
  }
}

// Chooses the number of teams so that all have the same number of tiles if possible, and fewer if x leaves little room
// for the rings.
Split split_of(const LinearIntArgs& args, int num_blocks) {
  const IntLayout layout(args.format);
  const std::int64_t of_a_block = (num_tiles(args) + num_blocks - 1) / num_blocks;
  std::int64_t rounds = (of_a_block + kWarps - 1) / kWarps;
  while (true) {
    const std::int64_t teams = (of_a_block + rounds - 1) / rounds;
    const Split split = split_in_teams(args, layout, teams);
    if (split.places >= kMinPlaces || teams == 1) return split;
    rounds = (of_a_block + teams - 2) / (teams - 1);
  }
}

using Kernel = void (*)(StreamArgs);
template <Kind kKind, int kTiles>
Kernel kernel_of_column_group(std::int32_t column_group) {
  switch (column_group) {
    case 128:
      return int_stream_kernel<kKind, 1, kTiles>;
    case 64:
      return int_stream_kernel<kKind, 2, kTiles>;
    case 32:
      return int_stream_kernel<kKind, 4, kTiles>;
    default:
      return int_stream_kernel<kKind, 0, kTiles>;
  }
}
template <int kTiles>
Kernel kernel_of_kind(Kind kind, std::int32_t column_group) {
  return kind == Kind::k4            ? kernel_of_column_group<Kind::k4, kTiles>(column_group)
         : kind == Kind::kSymmetric8 ? kernel_of_column_group<Kind::kSymmetric8, kTiles>(column_group)
                                     : kernel_of_column_group<Kind::kAny8, kTiles>(column_group);
}
Kernel kernel_of(Kind kind, std::int32_t column_group, std::int64_t m) {
  return m <= kTileRows ? kernel_of_kind<1>(kind, column_group) : kernel_of_kind<kMaxTiles>(kind, column_group);
}

}  // namespace

bool streams_int(const LinearIntArgs& args) {
  const IntLayout layout(args.format);
  constexpr std::int64_t kMaxK = kSharedBytes;
  if (args.m > kMaxTiles * kTileRows || args.format.k > kMaxK) return false;
  if (!layout.whole && args.format.group_size != layout.column_group) return false;
  if (kBarrierBytes + bytes_of_rows(args.m, static_cast<std::int32_t>(layout.chunks)) >= kSharedBytes) return false;
  int most = 0;
  if (num_multiprocessors(most) != cudaSuccess) return false;
  const Split split = split_of(args, most);
  if (split.places < kMinPlaces) return false;
  // A small product is fast anyway, and with one row this kernel also saves the kernel that makes q.
  const std::int64_t tiles = num_tiles(args);
  if (args.m == 1 || tiles <= most / 4) return true;
  return split.teams * split.team >= (args.m > kTileRows ? kMinWarpsForTwoTiles : kMinWarps) &&
         (args.m <= kTileRows || split.teams >= kMinWarpsForTwoTiles);
}

std::uint64_t stream_int_workspace_bytes(const LinearIntArgs& args) {
  return args.m <= 1 ? 0 : int_rows_bytes(args, /*sums=*/false);
}

cudaError_t launch_linear_int_stream(const LinearIntArgs& args, void* workspace, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const IntLayout layout(args.format);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(num_tiles(args), most));
  StreamArgs all = {};
  if (args.m > 1) {
    all.rows = int_rows_in(workspace, args, /*sums=*/false);
    if (const cudaError_t error = launch_quantize_rows(args, all.rows, stream); error != cudaSuccess) return error;
  }
  all.linear = args;
  all.split = split_of(args, static_cast<int>(blocks));
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.chunk_bytes = static_cast<std::int32_t>(layout.chunk_bytes);
  all.panel_bytes = layout.panel_bytes;
  if (layout.whole) {
    all.scales = reinterpret_cast<const float*>(args.w + layout.scales);
    all.zeros = reinterpret_cast<const std::uint8_t*>(args.w + layout.zeros);
  }
  const std::int64_t bytes = static_cast<std::int64_t>(all.split.teams) * all.split.team * all.split.places *
                                 piece_chunks(kind_of(args)) * layout.chunk_bytes +
                             bytes_of_rows(args.m, all.chunks) +
                             all.split.teams * bytes_of_terms(all.split.terms, args.m) + kBarrierBytes;
  return launch_overlapped(kernel_of(kind_of(args), layout.column_group, args.m), dim3(blocks), kThreads,
                           static_cast<std::size_t>(bytes), stream, all);
}

cudaError_t prepare_int_stream_kernels() {
  for (const Kind kind : {Kind::kSymmetric8, Kind::kAny8, Kind::k4}) {
    for (const std::int32_t column_group : {0, 32, 64, 128}) {
      for (const std::int64_t m : {kTileRows, kMaxTiles * kTileRows}) {
        const cudaError_t error = cudaFuncSetAttribute(kernel_of(kind, column_group, m),
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
