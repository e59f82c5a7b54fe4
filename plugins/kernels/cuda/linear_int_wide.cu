// Weights are the a operand of the instruction (64 columns of y per warpgroup). They come from registers, because their
// bytes may have to be unpacked first. Rows of q are the b operand. A block computes tile after tile. One warpgroup
// loads chunks of weights and q into a ring in shared memory; one, two or four warpgroups multiply, and load the
// fragments of the next chunk meanwhile.
#include "kernels/cuda/linear_int_wide.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/int_rows.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarpgroup = 128, kWarpgroupColumns = 64, kWarpgroupPanels = kWarpgroupColumns / kIntPanel;
constexpr int kSharedBytes = 200 << 10;
constexpr int kMaxPlaces = 16;
constexpr std::int64_t kRowsOfLargeTiles = 2048;

// kSetsOfChunk: 0 means one group a row. Sums then stay integers to the end, which leaves registers for 256 rows.
template <int kBits, int kSetsOfChunk, int kTileRows, int kNumGroups>
struct Shape {
  static constexpr int kGroups = kNumGroups;  // warpgroups that multiply
  static constexpr int kThreads = (kGroups + 1) * kWarpgroup;
  static constexpr int kPanels = kGroups * kWarpgroupPanels;
  static constexpr int kRowBytes = kTileRows * kIntChunk;
  static constexpr int kChunkBytes = int_chunk_bytes(kBits, kSetsOfChunk);
  // Rows of q begin at multiples of 1024 bytes, as the swizzle of TMA requires.
  static constexpr int kPlaceBytes = (kRowBytes + kPanels * kChunkBytes + 1023) / 1024 * 1024;
  static constexpr int kPlaces = kSharedBytes / kPlaceBytes < kMaxPlaces ? kSharedBytes / kPlaceBytes : kMaxPlaces;
  static_assert(kIntRowsPadded % kTileRows == 0);
  static constexpr int kBarriers = kPlaces * kPlaceBytes;  // "full" barriers, then "free" barriers
  static constexpr int kBytes = kBarriers + 2 * 8 * kPlaces;
  static constexpr int kUsers = kGroups * 4;  // warps that release a place
  // Registers of a loading thread and of a multiplying thread, if several warpgroups multiply. Their total must not
  // exceed the registers of the block at its launch, or the threads would wait forever.
  static constexpr int kFewRegisters = kGroups == 4 ? 32 : 40, kManyRegisters = kGroups == 4 ? 112 : 232;
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static_assert(kGroups == 1 || kFewRegisters + kGroups * kManyRegisters <= (kGroups + 1) * kLaunchRegisters);
};

struct WideArgs {
  CUtensorMap q;  // [m][chunks * kIntChunk] bytes
  LinearIntArgs linear;
  const float* row_scales;
  const std::int32_t* row_sums;  // [groups][rows_padded], sums of q; null unless weights have 8 bits and zero points
  std::int64_t rows_padded, panel_bytes;
  std::int32_t chunks, group_sets, row_sets;  // chunks in a panel; sets in a group; sets in a row
  std::int32_t row_tiles, tiles;
  const float* scales;  // scales and zeros: used only with one group a row
  const std::uint8_t* zeros;
};

// The order of the tiles: bands of rows, and in each band column after column. So blocks that run at the same time
// share rows and weights, and the rows of a band stay in the L2.
struct TilePosition {
  int row, column;  // in tiles
};
__device__ __forceinline__ TilePosition position_of(const WideArgs& args, int tile) {
  constexpr int kBand = 8;
  const int column_tiles = args.tiles / args.row_tiles, of_band = kBand * column_tiles;
  const int first = tile / of_band * kBand, rows = min(kBand, args.row_tiles - first), i = tile % of_band;
  return {first + i % rows, i / rows};
}

// A place in the ring, and whether the ring has been passed an even number of times.
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

// One of the four loading warps. It loads one of the four panels of each warpgroup; the first warp also loads rows of
// q.
template <class S>
__device__ __forceinline__ void feed(const WideArgs& args, Place<S> place, int warp, int tile_rows) {
  const std::byte* const first = args.linear.w + args.linear.first_column / kIntPanel * args.panel_bytes;
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
    const TilePosition position = position_of(args, tile);
    const int panel = position.column * S::kPanels + warp, row = position.row * tile_rows;
#pragma unroll 1
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
      wait_barrier(place.free(), place.phase ^ 1);
      expect_bytes(place.full(), S::kGroups * S::kChunkBytes + (warp == 0 ? S::kRowBytes : 0));
#pragma unroll
      for (int group = 0; group < S::kGroups; ++group) {
        const int i = group * kWarpgroupPanels;
        copy_bulk(place.panel(i + warp),
                  first + (panel + i) * args.panel_bytes + static_cast<std::int64_t>(chunk) * S::kChunkBytes,
                  S::kChunkBytes, place.full());
      }
      if (warp == 0) copy_piece(place.rows(), args.q, chunk * kIntChunk, row, place.full());
      place.advance();
    }
  }
}

// Scales and zero points of a lane's two rows of w, lane / 4 and lane / 4 + 8.
struct Group {
  float scale[2];
  std::uint32_t zero[2];
};

// A lane's part of a chunk: the bytes of the a operand for each step. The zero point of 4-bit values has been
// subtracted.
template <int kBits, int kSets>
struct Fragments {
  std::uint32_t a[kIntSteps][4];
  Group groups[kSets > 0 ? kSets : 1];

  __device__ __forceinline__ void load(std::uint32_t panel, const Group& row) {
    constexpr int kValueBytes = kIntChunk * kIntPanel * kBits / 8;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kSets; ++i) {
      const std::uint32_t set = panel + kValueBytes + i * kIntSetBytes + lane / 4 * 4;
      const std::uint32_t zeros = panel + kValueBytes + i * kIntSetBytes + 4 * kIntPanel + lane / 4;
      groups[i] = {{load_scale(set), load_scale(set + 32)}, {load_zero(zeros), load_zero(zeros + 8)}};
    }
    if constexpr (kSets == 0) groups[0] = row;
#pragma unroll
    for (int i = 0; i < kValueBytes / 512; ++i) {
      const uint4 v = load_sixteen(panel + i * 512 + lane * 16);
      const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
      if constexpr (kBits == 8) {
#pragma unroll
        for (int j = 0; j < 4; ++j) a[i][j] = words[j];
      } else {
        unpack(words, 2 * i, groups[kSets * i / 2]);
        unpack(words, 2 * i + 1, groups[kSets * (2 * i + 1) / 4]);
      }
    }
  }

 private:
  // value - zero as a signed byte. The top bit is set before the subtraction, so that nothing is borrowed from the next
  // byte.
  __device__ __forceinline__ void unpack(const std::uint32_t (&words)[4], int step, const Group& group) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t values = (step % 2 == 0 ? words[j] : words[j] >> 4) & 0x0f0f0f0fu;
      a[step][j] = ((values | 0x80808080u) - group.zero[j % 2] * 0x01010101u) ^ 0x80808080u;
    }
  }
};

// A warpgroup's tile of y: 64 columns times kTileRows rows. One per thread; methods are called by the whole warpgroup.
// Invariant: place_ is the place of the next chunk to take.
template <int kBits, int kSets, int kTileRows, int kGroups>
class Tile {
  using S = Shape<kBits, kSets, kTileRows, kGroups>;
  using ItsFragments = Fragments<kBits, kSets>;
  static constexpr int kEights = kTileRows / 8;
  static constexpr int kStepsOfSet = kSets == 0 ? kIntSteps : kIntSteps / kSets;

 public:
  __device__ Tile(const WideArgs& args, Place<S>& place, const TilePosition& tile)
      : args_(args),
        place_(place),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        row_(tile.row * kTileRows),
        column_(tile.column * S::kPanels * kIntPanel + warp_ * kIntPanel + lane_ / 4),
        sets_left_(args.group_sets) {}

  __device__ __forceinline__ void compute() {
    if constexpr (kSets == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t n = args_.linear.first_column + column_ + 8 * half;
        whole_row_.scale[half] = args_.scales[n];
        whole_row_.zero[half] = args_.zeros[n];
      }
    }
    ItsFragments fragments[2];
    fetch(fragments[0]);
#pragma unroll 1
    for (int chunk = 0; chunk < args_.chunks; chunk += 2) {
      multiply(fragments[0], fragments[1], chunk + 1 < args_.chunks);
      if (chunk + 1 < args_.chunks) multiply(fragments[1], fragments[0], chunk + 2 < args_.chunks);
    }
    if constexpr (kSets == 0) end_group(whole_row_);
    write();
  }

 private:
  // Waits for the next place and loads its fragments.
  __device__ __forceinline__ void fetch(ItsFragments& fragments) {
    wait_barrier(place_.full(), place_.phase);
    fragments.load(place_.panel(warp_), whole_row_);
    rows_ = place_.rows();
    free_ = place_.free();
    place_.advance();
  }

  __device__ __forceinline__ void multiply(const ItsFragments& here, ItsFragments& next, bool more) {
    const std::uint64_t b = matrix(rows_, 0, 1024);
    const std::uint32_t mine = free_;
#pragma unroll
    for (int set = 0; set < (kSets == 0 ? 1 : kSets); ++set) {
      begin_products();
#pragma unroll
      for (int i = 0; i < kStepsOfSet; ++i) {
        const int step = set * kStepsOfSet + i;
        product(dot_, here.a[step], moved(b, step * kIntStep), adds_ || i > 0);
      }
      commit_products();
      adds_ = true;
      const bool last = set + 1 == (kSets == 0 ? 1 : kSets);
      if (last && more) fetch(next);
      bool ends = false;
      if constexpr (kSets > 0) {
        // The set is beyond the last one of the row and belongs to no group.
        --sets_left_, ++set_;
        ends = set_ <= args_.row_sets && (sets_left_ == 0 || set_ == args_.row_sets);
      }
      if (!ends && !last) continue;
      wait_products();
      hold(dot_);
      if (last) {
        __syncwarp();
        if (lane_ == 0) arrive(mine);
      }
      if (ends) end_group(here.groups[set]);
    }
  }

  __device__ __forceinline__ void end_group(const Group& group) {
    if (kBits == 8 && args_.row_sums != nullptr) {
      add_terms<true>(group);
    } else {
      add_terms<false>(group);
    }
    ++group_;
    sets_left_ = args_.group_sets;
    adds_ = false;
  }

  // kZeros: bytes are value - 128, and zero points may differ from 128.
  template <bool kZeros>
  __device__ __forceinline__ void add_terms(const Group& group) {
    const std::int32_t* const sums = args_.row_sums + group_ * args_.rows_padded + row_ + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      if constexpr (kZeros) {
        const int2 sum = *reinterpret_cast<const int2*>(sums + 8 * i);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          dot_[i][j] += (128 - static_cast<int>(group.zero[j / 2])) * (j % 2 == 0 ? sum.x : sum.y);
        }
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float term = __fmul_rn(__int2float_rn(dot_[i][j]), group.scale[j / 2]);
        if constexpr (kSets == 0) {
          dot_[i][j] = __float_as_int(__fadd_rn(0.0f, term));
        } else {
          acc_[i][j] = __fadd_rn(acc_[i][j], term);
        }
      }
    }
  }

  __device__ __forceinline__ void write() const {
    const LinearIntArgs& linear = args_.linear;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const std::int64_t m = row_ + 8 * i + lane_ % 4 * 2;
      if (m >= linear.m) break;
      const float2 scales = *reinterpret_cast<const float2*>(args_.row_scales + m);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t n = column_ + j / 2 * 8;
        if (n >= linear.n || m + j % 2 >= linear.m) continue;
        const float sum = kSets == 0 ? __int_as_float(dot_[i][j]) : acc_[kSets == 0 ? 0 : i][j];
        float y = __fmul_rn(sum, j % 2 == 0 ? scales.x : scales.y);
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
  const int warp_, lane_, row_, column_;
  Group whole_row_ = {};
  // Addresses of the rows and of the "free" barrier of the last place that was fetched.
  std::uint32_t rows_ = 0, free_ = 0;
  std::int32_t dot_[kEights][4];  // sums of the group; with one group a row, at the end the sums in f32
  float acc_[kSets == 0 ? 1 : kEights][4] = {};
  int sets_left_, set_ = 0, group_ = 0;
  bool adds_ = false;
};

template <int kBits, int kSets, int kTileRows, int kGroups>
__global__ void __launch_bounds__((Shape<kBits, kSets, kTileRows, kGroups>::kThreads), 1)
    int_wide_kernel(const __grid_constant__ WideArgs args) {
  using S = Shape<kBits, kSets, kTileRows, kGroups>;
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  Place<S> place = {shared_address(memory)};
  if (threadIdx.x < S::kPlaces) {
    make_barrier(place.memory + S::kBarriers + 8 * threadIdx.x, 4);
    make_barrier(place.memory + S::kBarriers + 8 * (S::kPlaces + threadIdx.x), S::kUsers);
  }
  publish_barriers();
  __syncthreads();
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= S::kUsers) {
    if constexpr (S::kGroups > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kFewRegisters));
    // Weights do not depend on preceding kernels, so they are loaded at once. The first of these warps also loads q.
    if (warp == S::kUsers) {
      wait_for_kernel_before();
      see_writes();
    }
    if (threadIdx.x % 32 == 0) feed<S>(args, place, warp - S::kUsers, kTileRows);
    wait_for_kernel_before();
  } else {
    if constexpr (S::kGroups > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kManyRegisters));
    wait_for_kernel_before();
#pragma unroll 1
    for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
      Tile<kBits, kSets, kTileRows, kGroups>(args, place, position_of(args, tile)).compute();
    }
  }
}

using Kernel = void (*)(WideArgs);
struct Choice {
  Kernel kernel;
  int tile_rows, columns, threads, bytes;
};
template <int kBits, int kSets, int kTileRows, int kGroups>
Choice choice() {
  using S = Shape<kBits, kSets, kTileRows, kGroups>;
  return {int_wide_kernel<kBits, kSets, kTileRows, kGroups>, kTileRows, S::kPanels * kIntPanel, S::kThreads, S::kBytes};
}
// The available tile sizes. For 4-bit weights in groups, which have few bytes, four warpgroups are faster up to 64 rows
// (H100), because more warps unpack.
constexpr int kChoices = 4;
constexpr std::int64_t kRowsOfManyGroups = 64;
template <int kBits, int kSets>
Choice choice_of_size(int size) {
  constexpr bool kFewBytes = (kBits == 4 && kSets != 0);
  switch (size) {
    case 0:
      return choice<kBits, kSets, 32, 1>();
    case 1:
      return choice<kBits, kSets, 64, 1>();
    case 2:
      return choice<kBits, kSets, 128, 2>();
    default:
      return choice < kBits, kSets, kFewBytes ? 64 : kSets == 0 ? 256 : 128, kFewBytes ? 4 : 2 > ();
  }
}
Choice choice_of(int bits, std::int32_t column_group, int size) {
  switch (column_group) {
    case 128:
      return bits == 4 ? choice_of_size<4, 1>(size) : choice_of_size<8, 1>(size);
    case 64:
      return bits == 4 ? choice_of_size<4, 2>(size) : choice_of_size<8, 2>(size);
    case 32:
      return bits == 4 ? choice_of_size<4, 4>(size) : choice_of_size<8, 4>(size);
    default:
      return bits == 4 ? choice_of_size<4, 0>(size) : choice_of_size<8, 0>(size);
  }
}

// Returns the tile size with which one block loads the fewest bytes over all its tiles. The choice changes no bit.
Choice cheapest(const LinearIntArgs& args, std::int32_t column_group, int num_blocks) {
  Choice best = {};
  std::int64_t least = INT64_MAX;
  for (int size = 0; size < kChoices; ++size) {
    const Choice one = choice_of(args.format.bits, column_group, size);
    // Tiles of 256 rows only pay if each block has many of them.
    if (one.tile_rows == 256 && args.m < kRowsOfLargeTiles) continue;
    if (one.columns == kIntColumns && args.m > kRowsOfManyGroups) continue;
    const std::int64_t rows = one.tile_rows,
                       tiles = (args.n + one.columns - 1) / one.columns * ((args.m + rows - 1) / rows);
    const std::int64_t cost = (tiles + num_blocks - 1) / num_blocks * (rows + one.columns * args.format.bits / 8);
    if (cost <= least) least = cost, best = one;
  }
  return best;
}

bool wants_sums(const LinearIntArgs& args) {
  return args.format.bits == 8 && !args.symmetric;
}

}  // namespace

std::uint64_t wide_int_workspace_bytes(const LinearIntArgs& args) {
  return int_rows_bytes(args, wants_sums(args));
}

cudaError_t launch_linear_int_wide(const LinearIntArgs& args, void* workspace, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const IntLayout layout(args.format);
  const IntRows rows = int_rows_in(workspace, args, wants_sums(args));
  if (const cudaError_t error = launch_quantize_rows(args, rows, stream); error != cudaSuccess) return error;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const Choice chosen = cheapest(args, layout.column_group, most);
  WideArgs all = {};
  if (const cudaError_t error = describe_pieces(CU_TENSOR_MAP_DATA_TYPE_UINT8, rows.q, args.m, rows.row_bytes,
                                                rows.row_bytes, chosen.tile_rows, kIntChunk, all.q);
      error != cudaSuccess) {
    return error;
  }
  all.linear = args;
  all.row_scales = rows.scales;
  all.row_sums = rows.sums;
  all.rows_padded = rows.rows_padded;
  all.panel_bytes = layout.panel_bytes;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  if (layout.whole) {
    all.scales = reinterpret_cast<const float*>(args.w + layout.scales);
    all.zeros = reinterpret_cast<const std::uint8_t*>(args.w + layout.zeros);
  } else {
    all.group_sets = static_cast<std::int32_t>(args.format.group_size / layout.column_group);
    all.row_sets = static_cast<std::int32_t>((args.format.k + layout.column_group - 1) / layout.column_group);
  }
  all.row_tiles = static_cast<std::int32_t>((args.m + chosen.tile_rows - 1) / chosen.tile_rows);
  all.tiles = static_cast<std::int32_t>((args.n + chosen.columns - 1) / chosen.columns) * all.row_tiles;
  return launch_overlapped(chosen.kernel, dim3(static_cast<unsigned>(std::min(all.tiles, most))), chosen.threads,
                           static_cast<std::size_t>(chosen.bytes), stream, all);
}

cudaError_t prepare_int_wide_kernels() {
  for (const int bits : {4, 8}) {
    for (const std::int32_t column_group : {0, 32, 64, 128}) {
      for (int size = 0; size < kChoices; ++size) {
        const Choice one = choice_of(bits, column_group, size);
        const cudaError_t error =
            cudaFuncSetAttribute(one.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, one.bytes);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
