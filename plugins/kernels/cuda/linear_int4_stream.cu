// Up to three teams of warps in a block each have their own tiles (panels of sixteen columns of y), and a ring of
// pieces, four chunks of a panel. In a team one warp requests the pieces, several warps multiply one piece each, and
// one adds the terms of a piece's groups, in their order. There are several teams because a tile's sum is a chain.
//
// Few rows leave most of the eight columns of the b operand unused. So the columns are groups: q of a group is in the
// columns of its own, and zeros are in the others. One accumulator then collects eight groups of one row (four of two,
// ..), and each of its elements is the sum of one group, row and column of y. Without that, seven of eight conversions
// and products with scales would be for rows that do not exist.
//
// A byte of weights has two values. The instruction takes bytes without sign, so the low ones are byte & 15 and the
// high ones byte & 240, sixteen times the value. Their sums are in an accumulator of their own and are shifted.
#include "kernels/cuda/linear_int4_stream.hpp"

#include <algorithm>

#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/int_rows.cuh"
#include "kernels/cuda/int_rows.hpp"
#include "kernels/cuda/int_sums.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tensor_map.hpp"

namespace mortise::cuda {
namespace {

constexpr int kMaxTeams = 3;
constexpr int kMultipliers = 16;  // warps of all teams; then an adder and a feeder for each team
constexpr int kFirstFeeder = kMultipliers + kMaxTeams;
constexpr int kThreads = (kFirstFeeder + kMaxTeams) * 32;
constexpr std::int64_t kMaxRows = 4;  // with more, linear_int4_widened is as fast (H100, products of an 8B model)
constexpr int kPieceChunks = 4, kPieceColumns = kPieceChunks * kIntChunk;
// Of all teams. A team has at least as many as multipliers; see Position.
constexpr int kMinPlaces = kMultipliers, kMaxPlaces = 48;
constexpr int kPlaceBarriers = 3;
constexpr int kZeroBytes = 16;           // stands for the columns of b that a group does not have
constexpr int kSharedBytes = 203 << 10;  // leaves room for a block of the preceding or following kernel
constexpr int kEarlyBytes = 48 << 10;    // bytes of weights in flight before the preceding kernels have ended
constexpr int kMultipliersReady = 1;     // a named barrier

struct StreamArgs {
  LinearIntArgs linear;
  std::int32_t chunks, pieces;  // of a panel
  std::int32_t teams, team;     // number of teams; multipliers of a team
  std::int32_t places;          // of a team's ring
  std::int32_t early;           // pieces that a team has in flight before the preceding kernels have ended
  std::int64_t panel_bytes;
  IntRows rows;  // null if x has one row
};

// kSets: groups in a chunk. kRows: rows of x, rounded up to a power of two.
template <int kSets, int kRows>
struct Shape {
  static constexpr int kChunkBytes = int_chunk_bytes(4, kSets), kPieceBytes = kPieceChunks * kChunkBytes;
  static constexpr int kGroups = kPieceChunks * kSets;  // of a piece
  static constexpr int kGroupColumns = kIntChunk / kSets;
  static constexpr int kVectors = 2 / kSets;                      // of sixteen bytes that a lane has of a group
  static constexpr int kTogether = std::min(8 / kRows, kGroups);  // groups that share an accumulator
  static constexpr int kElements = kIntPanel * kRows;             // terms of a group: [kIntPanel][kRows]
  static constexpr int kPitch = kElements + 4;                    // of a group, so that stores go to all banks
  static constexpr int kSlotBytes = kGroups * kPitch * 4;         // terms of a piece; each multiplier has a slot
  static constexpr int kRowsAndScale = 16 + 4 * kMultipliers;     // the row's scale, the largest magnitudes
  static constexpr int kBarriers = 1 + kPlaceBarriers * kMaxPlaces + 2 * kMultipliers;
};

__host__ __device__ constexpr int row_pitch(int pieces) {
  return pieces * kPieceColumns + 16;  // so that ldmatrix of 8 rows reads from all banks
}

// The addresses of a block's shared memory: the rings, q, zeros, sums of q, slots of terms, scale and magnitudes,
// barriers. Places are counted over all teams. A value.
template <int kSets, int kRows>
struct Layout {
  using Its = Shape<kSets, kRows>;
  std::uint32_t rings, rows, zeros, sums, slots, scale, rows_came;

  __host__ __device__ Layout(std::uint32_t at, int places, int pieces, int m)
      : rings(at),
        rows(rings + static_cast<std::uint32_t>(places * Its::kPieceBytes)),
        zeros(rows + static_cast<std::uint32_t>(m * row_pitch(pieces))),
        sums(zeros + kZeroBytes),
        slots(sums + static_cast<std::uint32_t>(pieces * Its::kGroups * kRows * 4)),
        scale(slots + kMultipliers * Its::kSlotBytes),
        rows_came(scale + Its::kRowsAndScale) {}

  __host__ __device__ std::uint32_t end() const { return rows_came + Its::kBarriers * 8; }
  __device__ __forceinline__ std::uint32_t piece(int place) const { return rings + place * Its::kPieceBytes; }
  // Even and odd passes over the ring have barriers of their own.
  __device__ __forceinline__ std::uint32_t piece_came(int place, int pass) const {
    return rows_came + 8 + (place * kPlaceBarriers + pass % 2) * 8;
  }
  __device__ __forceinline__ std::uint32_t piece_left(int place) const { return piece_came(place, 0) + 16; }
  __device__ __forceinline__ std::uint32_t slot(int multiplier) const { return slots + multiplier * Its::kSlotBytes; }
  __device__ __forceinline__ std::uint32_t slot_filled(int multiplier) const {
    return rows_came + 8 + (kMaxPlaces * kPlaceBarriers + multiplier * 2) * 8;
  }
  __device__ __forceinline__ std::uint32_t slot_left(int multiplier) const { return slot_filled(multiplier) + 8; }
};

// A position in a team's ring, and how often the ring has been passed. A value.
// A wait on a barrier cannot tell a phase from the second one before it. Multipliers of a team do not wait for each
// other, so one may wait for its piece before the preceding piece in that place has come. Even and odd passes therefore
// have barriers of their own. Then the piece two passes before must have come, and it has: the multiplier's own last
// piece is at most one pass back, and it was requested after all pieces up to a pass before it had been used.
struct Position {
  int place, pass = 0;
  __device__ __forceinline__ void advance(int by, int places) {
    place += by;
    if (place >= places) place -= places, ++pass;
  }
};

__device__ __forceinline__ int load_integer(std::uint32_t address) {
  int v;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void store_word(std::uint32_t address, std::uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

// The compiler computes v before what follows in the program and is volatile, too.
__device__ __forceinline__ int hold(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

// Requests all pieces of a team; used by one lane. Before the preceding kernels have ended, `early` pieces are in
// flight, so that those kernels' loads do not queue behind them.
template <int kSets, int kRows>
__device__ __forceinline__ void feed(const StreamArgs& args, const Layout<kSets, kRows>& at, int team, int tiles) {
  using Its = Shape<kSets, kRows>;
  const std::uint64_t policy = policy_of_what_is_read_once();
  const std::byte* const first = args.linear.w + args.linear.first_column / kIntPanel * args.panel_bytes;
  const int blocks = static_cast<int>(gridDim.x), first_place = team * args.places;
  Position next = {0};
  int oldest = 0;
  bool gently = true;
  for (int tile = static_cast<int>(blockIdx.x) + team * blocks; tile < tiles; tile += args.teams * blocks) {
    const std::byte* const panel = first + tile * args.panel_bytes;
    for (int chunk = 0; chunk < args.chunks; chunk += kPieceChunks) {
      wait_barrier(at.piece_left(first_place + next.place), next.pass % 2 ^ 1);
      if (next.pass != 0) gently = false;  // a piece has been multiplied
      for (; gently && next.place - oldest >= args.early; ++oldest) {
        while (gently && !has_come(at.piece_came(first_place + oldest, 0), 0)) {
          gently = !has_come_already(at.rows_came, 0);
        }
      }
      const int bytes = min(kPieceChunks, args.chunks - chunk) * Its::kChunkBytes;
      const std::uint32_t came = at.piece_came(first_place + next.place, next.pass);
      expect_bytes(came, bytes);
      copy_bulk(at.piece(first_place + next.place), panel + chunk * Its::kChunkBytes, bytes, came, policy);
      next.advance(1, args.places);
    }
  }
}

// Quantises the only row of x, and adds up q of each group.
template <int kSets, int kRows>
__device__ __forceinline__ void make_row(const StreamArgs& args, const Layout<kSets, kRows>& at, char* memory) {
  using Its = Shape<kSets, kRows>;
  constexpr int kVectors = Its::kGroupColumns / 8;  // of a group; a power of two of lanes has them
  char* const q = memory + (at.rows - at.rings);
  auto* const scale = reinterpret_cast<float*>(memory + (at.scale - at.rings));
  // A row of an odd number of chunks ends in the middle of a warp; there is room behind it, since pieces are larger.
  const auto put = [&](int i, const uint2& eight) {
    *reinterpret_cast<uint2*>(q + 8 * i) = eight;
    int sum = __dp4a(static_cast<int>(eight.x), 0x01010101, __dp4a(static_cast<int>(eight.y), 0x01010101, 0));
#pragma unroll
    for (int distance = 1; distance < kVectors; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % kVectors == 0) {
      store_word(at.sums + static_cast<unsigned>(i) / kVectors * 4, static_cast<std::uint32_t>(sum));
    }
  };
  quantize_row_together<kMultipliers, kMultipliersReady>(IntRow(args.linear, 0), args.chunks * (kIntChunk / 8), scale,
                                                         reinterpret_cast<std::uint32_t*>(scale + 4), put);
}

// Adds up q of each group of the rows that have come.
template <int kSets, int kRows>
__device__ __forceinline__ void add_rows(const StreamArgs& args, const Layout<kSets, kRows>& at) {
  using Its = Shape<kSets, kRows>;
  const int all = args.chunks * kSets * kRows;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kMultipliers * 32) {
    const int group = i / kRows, row = i % kRows;
    int sum = 0;
    if (row < args.linear.m) {
      const std::uint32_t from = at.rows + row * row_pitch(args.pieces) + group * Its::kGroupColumns;
#pragma unroll
      for (int j = 0; j < Its::kGroupColumns / 16; ++j) {
        const uint4 q = load_sixteen(from + 16 * j);
        for (const std::uint32_t word : {q.x, q.y, q.z, q.w}) sum = __dp4a(static_cast<int>(word), 0x01010101, sum);
      }
    }
    store_word(at.sums + i * 4, static_cast<std::uint32_t>(sum));
  }
  asm volatile("bar.sync %0, %1;" ::"n"(kMultipliersReady), "n"(kMultipliers * 32) : "memory");
}

// Multiplies pieces. A lane's element j of an accumulator is in column 2 (lane % 4) + j % 2 of b, which stands for a
// group and a row. One per thread of a multiplying warp; methods are called by whole warps.
template <int kSets, int kRows>
class Multiplier {
  using Its = Shape<kSets, kRows>;
  static constexpr int kHalf = 4;  // vectors of weights that are loaded together
  static constexpr int kAll = Its::kTogether * Its::kVectors;
  static_assert(kAll % std::min(kHalf, kAll) == 0);

 public:
  __device__ Multiplier(const StreamArgs& args, const Layout<kSets, kRows>& at)
      : at_(at), lane_(static_cast<int>(threadIdx.x) % 32) {
    // Where this lane's row of b begins for ldmatrix: column lane % 8, sixteen elements from lane / 8 on.
    const int row = lane_ % 8 % kRows;
    group_ = hold(row < args.linear.m ? lane_ % 8 / kRows : -1);
    x_ = static_cast<std::uint32_t>(hold(static_cast<int>(at.rows) + row * row_pitch(args.pieces) + lane_ / 8 * 16));
  }

  // Leaves the terms of the piece in `slot`, once `slot_left` says that the terms before have been read.
  __device__ __forceinline__ void multiply(std::uint32_t piece, int number, std::uint32_t slot, std::uint32_t slot_left,
                                           int slot_phase) const {
#pragma unroll
    for (int batch = 0; batch < Its::kGroups / Its::kTogether; ++batch) {
      const int first = batch * Its::kTogether;
      std::int32_t low[4] = {}, high[4] = {};
#pragma unroll
      for (int begin = 0; begin < kAll; begin += kHalf) {
        constexpr int kLoaded = std::min(kHalf, kAll);
        uint4 w[kLoaded];
        std::uint32_t x[kLoaded][4];
#pragma unroll
        for (int i = 0; i < kLoaded; ++i) {
          const int vector = first * Its::kVectors + begin + i, chunk = vector / 2;
          w[i] = load_sixteen(piece + chunk * Its::kChunkBytes + vector % 2 * 512 + lane_ * 16);
          const bool has = group_ == (begin + i) / Its::kVectors;
          load_matrices(x[i], has ? x_ + number * kPieceColumns + vector * 2 * kIntStep : at_.zeros);
        }
#pragma unroll
        for (int i = 0; i < kLoaded; ++i) {
          const std::uint32_t words[4] = {w[i].x, w[i].y, w[i].z, w[i].w};
          std::uint32_t a[4], b[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) a[j] = words[j] & 0x0f0f0f0fu, b[j] = words[j] & 0xf0f0f0f0u;
          mma_m16n8k32_unsigned(low, a, {x[i][0], x[i][1]});
          mma_m16n8k32_unsigned(high, b, {x[i][2], x[i][3]});
        }
      }
      float terms[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int group = first + group_of(j);
        const std::uint32_t set = piece + group / kSets * Its::kChunkBytes + 1024 + group % kSets * kIntSetBytes,
                            column = column_of(j);
        const float scale = load_scale(set + column * 4);
        const int zero = static_cast<int>(load_zero(set + 4 * kIntPanel + column));
        const int sum = load_integer(at_.sums + ((number * Its::kGroups + group) * kRows + row_at(j)) * 4);
        terms[j] = __fmul_rn(__int2float_rn(low[j] + (high[j] >> 4) - zero * sum), scale);
      }
      if (batch == 0) wait_barrier(slot_left, slot_phase ^ 1);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (Its::kTogether * kRows < 8 && lane_ % 4 * 2 >= Its::kTogether * kRows) continue;
        const int to = (first + group_of(j)) * Its::kPitch + column_of(j) * kRows + row_at(j);
        store_word(slot + to * 4, __float_as_uint(terms[j]));
      }
    }
  }

 private:
  // Lanes without a group of their own (one row, groups of 128) read those of another lane.
  __device__ __forceinline__ int group_of(int j) const {
    return (lane_ % 4 * 2 + j % 2) / kRows % Its::kTogether;
  }
  __device__ __forceinline__ int row_at(int j) const {
    return (lane_ % 4 * 2 + j % 2) % kRows;
  }

  const Layout<kSets, kRows>& at_;
  const int lane_;
  int group_;
  std::uint32_t x_;
};

// Adds the terms of a team's tiles, which its multipliers leave in turn, and writes y.
template <int kSets, int kRows>
__device__ __forceinline__ void add_terms(const StreamArgs& args, const Layout<kSets, kRows>& at, const float* scales,
                                          int team, int tiles) {
  using Its = Shape<kSets, kRows>;
  constexpr int kMine = (Its::kElements + 31) / 32;  // elements of a lane
  const int lane = static_cast<int>(threadIdx.x) % 32, all_groups = args.chunks * kSets;
  const int blocks = static_cast<int>(gridDim.x), end = (team + 1) * args.team;
  int multiplier = team * args.team, phase = 0;
  for (int tile = static_cast<int>(blockIdx.x) + team * blocks; tile < tiles; tile += args.teams * blocks) {
    float sums[kMine] = {};
    for (int piece = 0; piece < args.pieces; ++piece) {
      wait_barrier(at.slot_filled(multiplier), phase);
      const std::uint32_t from = at.slot(multiplier) + lane * 4;
      const int groups = all_groups - piece * Its::kGroups;
      const auto term = [&](int g, int i) { return load_scale(from + (g * Its::kPitch + 32 * i) * 4); };
      if (lane < Its::kElements && groups >= Its::kGroups) {
        float terms[Its::kGroups][kMine];  // all are on their way before the first is added
#pragma unroll
        for (int g = 0; g < Its::kGroups; ++g) {
#pragma unroll
          for (int i = 0; i < kMine; ++i) terms[g][i] = term(g, i);
        }
#pragma unroll
        for (int g = 0; g < Its::kGroups; ++g) {
#pragma unroll
          for (int i = 0; i < kMine; ++i) sums[i] = __fadd_rn(sums[i], terms[g][i]);
        }
      } else if (lane < Its::kElements) {  // the last piece may be shorter
        for (int g = 0; g < groups; ++g) {
#pragma unroll
          for (int i = 0; i < kMine; ++i) sums[i] = __fadd_rn(sums[i], term(g, i));
        }
      }
#pragma unroll
      for (float& sum : sums) asm volatile("" : "+f"(sum));  // the terms have been read before the slot is left
      __syncwarp();
      if (lane == 0) arrive(at.slot_left(multiplier));
      if (++multiplier == end) multiplier -= args.team, phase ^= 1;
    }
    if (lane >= Its::kElements) continue;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int element = lane + 32 * i;
      write_one(args.linear, tile, element / kRows, element % kRows, sums[i], scales);
    }
  }
}

template <int kSets, int kRows>
__global__ void __launch_bounds__(kThreads, 1) int4_stream_kernel(const __grid_constant__ StreamArgs args) {
  extern __shared__ __align__(1024) char memory[];
  using Its = Shape<kSets, kRows>;
  let_next_kernel_begin();
  const int m = static_cast<int>(args.linear.m), tiles = static_cast<int>((args.linear.n + kIntPanel - 1) / kIntPanel);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Layout<kSets, kRows> at(shared_address(memory), args.teams * args.places, args.pieces, m);
  // One thread arrives at each, but a slot is filled by a warp.
  make_barriers(at.rows_came, 1 + args.teams * args.places * kPlaceBarriers, 1);
  if (warp < kMultipliers && lane == 0) {
    make_barrier(at.slot_filled(warp), 32);
    make_barrier(at.slot_left(warp), 1);
  }
  if (threadIdx.x < kZeroBytes / 4) store_word(at.zeros + threadIdx.x * 4, 0);
  publish_barriers();
  __syncthreads();

  if (warp >= kFirstFeeder) {  // weights do not depend on preceding kernels
    const int team = warp - kFirstFeeder;
    if (lane == 0 && team < args.teams) feed(args, at, team, tiles);
    __syncwarp();
    wait_for_kernel_before();
    return;
  }
  // The multipliers' numbers are computed before the preceding kernels have ended; hold() keeps them here.
  const int team = warp < kMultipliers ? warp / args.team : warp - kMultipliers;
  const int blocks = static_cast<int>(gridDim.x), stride = args.teams * blocks;
  const int first = static_cast<int>(blockIdx.x) + team * blocks;
  const bool works = team < args.teams && first < tiles;
  const int items = hold(works ? (tiles - first + stride - 1) / stride * args.pieces : 0);  // pieces of the team
  const int member = hold(warp - team * args.team);
  int number = hold(member % args.pieces), phase = 0;  // of the piece in its tile; of the slot
  const Multiplier<kSets, kRows> multiplier(args, at);
  wait_for_kernel_before();
  if (warp >= kMultipliers) {
    if (team == 0 && lane == 0) {
      if constexpr (kRows == 1) {
        arrive(at.rows_came);
      } else {
        see_writes();
        expect_bytes(at.rows_came, m * args.chunks * kIntChunk);
        for (int row = 0; row < m; ++row) {
          copy_bulk(at.rows + row * row_pitch(args.pieces), args.rows.q + row * args.rows.row_bytes,
                    args.chunks * kIntChunk, at.rows_came);
        }
      }
    }
    __syncwarp();
    const auto* const scale = reinterpret_cast<const float*>(memory + (at.scale - at.rings));
    if (team < args.teams) add_terms(args, at, kRows == 1 ? scale : args.rows.scales, team, tiles);
    return;
  }
  if constexpr (kRows == 1) {
    make_row(args, at, memory);
  } else {
    wait_barrier(at.rows_came, 0);
    add_rows(args, at);
  }
  Position here = {member};
#pragma unroll 1
  for (int item = member; item < items; item += args.team, phase ^= 1) {
    const int place = team * args.places + here.place;
    wait_barrier(at.piece_came(place, here.pass), here.pass / 2 % 2);
    multiplier.multiply(at.piece(place), number, at.slot(warp), at.slot_left(warp), phase);
    __syncwarp();
    if (lane == 0) arrive(at.piece_left(place));
    arrive(at.slot_filled(warp));  // all lanes: compute-sanitizer does not follow writes through __syncwarp
    here.advance(args.team, args.places);
    for (number += args.team; number >= args.pieces;) number -= args.pieces;
  }
}

using Kernel = void (*)(StreamArgs);
// A kernel, and the bytes of shared memory of a block.
struct Choice {
  Kernel kernel;
  std::int64_t piece_bytes, beside_ring;
};
template <int kSets, int kRows>
Choice choice(int pieces, int m) {
  return {int4_stream_kernel<kSets, kRows>, Shape<kSets, kRows>::kPieceBytes,
          Layout<kSets, kRows>(0, 0, pieces, m).end()};
}
template <int kSets>
Choice choice_of(int pieces, std::int64_t rows) {
  const int m = static_cast<int>(rows);
  return m == 1 ? choice<kSets, 1>(pieces, m) : m == 2 ? choice<kSets, 2>(pieces, m) : choice<kSets, 4>(pieces, m);
}
Choice choice_of(const LinearIntArgs& args, const IntLayout& layout) {
  const auto pieces = static_cast<int>((layout.chunks + kPieceChunks - 1) / kPieceChunks);
  return layout.column_group == 128 ? choice_of<1>(pieces, args.m) : choice_of<2>(pieces, args.m);
}

std::int64_t places_in(const Choice& chosen) {
  return std::min<std::int64_t>((kSharedBytes - chosen.beside_ring) / chosen.piece_bytes, kMaxPlaces);
}

}  // namespace

bool streams_int4(const LinearIntArgs& args) {
  const IntLayout layout(args.format);
  constexpr std::int64_t kMaxK = kSharedBytes;
  if (args.format.bits != 4 || args.m > kMaxRows || args.format.k > kMaxK) return false;
  if (layout.whole || args.format.group_size != layout.column_group || layout.column_group < 64) return false;
  return places_in(choice_of(args, layout)) >= kMinPlaces;
}

std::uint64_t stream_int4_workspace_bytes(const LinearIntArgs& args) {
  return args.m <= 1 ? 0 : int_rows_bytes(args, /*sums=*/false);
}

cudaError_t launch_linear_int4_stream(const LinearIntArgs& args, void* workspace, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const IntLayout layout(args.format);
  StreamArgs all = {};
  if (args.m > 1) {
    all.rows = int_rows_in(workspace, args, /*sums=*/false);
    if (const cudaError_t error = launch_quantize_rows(args, all.rows, stream); error != cudaSuccess) return error;
  }
  const std::int64_t tiles = (args.n + kIntPanel - 1) / kIntPanel, blocks = std::min<std::int64_t>(tiles, most);
  const Choice chosen = choice_of(args, layout);
  all.linear = args;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.pieces = (all.chunks + kPieceChunks - 1) / kPieceChunks;
  const auto of_a_block = static_cast<std::int32_t>((tiles + blocks - 1) / blocks);
  all.teams = of_a_block == 4 ? 2 : std::min(of_a_block, kMaxTeams);
  all.team = kMultipliers / all.teams;
  // No more places than a block has pieces: the rest of the memory is left to other kernels.
  const std::int64_t places = std::min<std::int64_t>(places_in(chosen), std::int64_t{of_a_block} * all.pieces);
  all.places = static_cast<std::int32_t>(std::max<std::int64_t>(places, kMinPlaces)) / all.teams;
  all.early = std::max(static_cast<std::int32_t>(kEarlyBytes / chosen.piece_bytes) / all.teams, 1);
  all.panel_bytes = layout.panel_bytes;
  return launch_overlapped(chosen.kernel, dim3(static_cast<unsigned>(blocks)), kThreads,
                           static_cast<std::size_t>(all.teams * all.places * chosen.piece_bytes + chosen.beside_ring),
                           stream, all);
}

cudaError_t prepare_int4_stream_kernels() {
  for (const std::int32_t group : {64, 128}) {
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{2}, kMaxRows}) {
      LinearIntArgs args = {};
      args.format = {4, group, kIntPanel, 2 * group};
      args.m = m;
      const cudaError_t error = cudaFuncSetAttribute(choice_of(args, IntLayout(args.format)).kernel,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
