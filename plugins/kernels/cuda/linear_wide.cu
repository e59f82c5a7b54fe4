// Three kinds of warps share a block, as in linear_fp8_widened.cu. "Wideners" read weights from memory and write them
// as bf16 into a ring in shared memory. One warp loads x into the same ring. One or two warpgroups multiply. A place of
// the ring has half a chunk of K: the panels of a tile, and its rows of x.
#include "kernels/cuda/linear_wide.hpp"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mxfp4_rows.cuh"
#include "kernels/cuda/wide_tile.cuh"
#include "kernels/cuda/widened_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kPanel = 8, kChunk = 128;  // of both formats
static_assert(kPanel == kFp8Panel && kPanel == kMxfp4Panel && kChunk == kFp8Chunk && kChunk == kMxfp4Chunk);
constexpr int kPanelBytes = kPanel * kWideRowBytes;  // half a chunk of a panel, widened
// What is left is for a block of the preceding or following kernel. Tiles of 256 rows leave nothing.
constexpr int kSharedBytes = 203 << 10, kAllSharedBytes = 226 << 10;

// A chunk of a panel with E4M3 weights, as it is in memory.
template <bool kGrouped>
struct NarrowFp8 {
  static constexpr int kScales = kGrouped ? 2 : 1, kChunkBytes = fp8_chunk_bytes(kGrouped);
  static constexpr int kAhead = 4;  // chunks that a widener may have on their way
  uint4 words[2];

  __device__ __forceinline__ void load(const std::byte* from, std::uint64_t policy) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) words[half] = load_once(from + half * 512 + lane * 16, policy);
  }
  // Widens half of the chunk. `to`: where the panel's half is.
  template <int kHalf>
  __device__ __forceinline__ void store(std::uint32_t to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t row = lane % 8 * kWideRowBytes, unit = (lane / 8 ^ lane % 8) * 16;
    const std::uint32_t w[4] = {words[kHalf].x, words[kHalf].y, words[kHalf].z, words[kHalf].w};
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      std::uint32_t v[4];
      widen_fp8(w[i], v[0], v[1]);
      widen_fp8(w[i + 1], v[2], v[3]);
      store_matrices(to + row + (unit ^ i * kWideStep * 2), v);
    }
  }
};

struct Mxfp4Chunk {
  static constexpr int kScales = 0, kChunkBytes = kMxfp4ChunkBytes, kAhead = 6;
};
// The same with MXFP4 weights. kSmall: LinearMxfp4Args::small.
template <bool kSmall>
struct NarrowMxfp4 : Mxfp4Chunk {
  uint4 words;
  std::uint32_t exponents;  // of row lane / 4

  __device__ __forceinline__ void load(const std::byte* from, std::uint64_t policy) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    words = load_once(from + lane * 16, policy);
    exponents = __ldg(reinterpret_cast<const std::uint32_t*>(from + kMxfp4ValueBytes) + lane / 4);
  }
  template <int kHalf>
  __device__ __forceinline__ void store(std::uint32_t to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t row = lane % 8 * kWideRowBytes, unit = (lane / 8 ^ lane % 8) * 16;
    const std::uint32_t w[2] = {kHalf == 0 ? words.x : words.z, kHalf == 0 ? words.y : words.w};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      std::uint32_t v[4];
      widen_mxfp4<kSmall>(w[i], factors_of<kSmall>(exponents, 2 * kHalf + i), v);
      store_matrices(to + row + (unit ^ i * kMxfp4Columns * 2), v);
    }
  }
};

// A tile and its warps: those that multiply, then wideners, each with some panels, then one that loads x. The first
// widener does that too where there are no registers for another warpgroup: with sums of 256 rows a thread needs 168
// registers at the launch, or ptxas refuses the instruction.
template <class Narrow, int kTileRows, int kGroups, int kColumnGroups>
struct Shape
    : WideShape<Narrow::kScales, kTileRows, kGroups, kColumnGroups, kTileRows == 256 ? kAllSharedBytes : kSharedBytes> {
  static constexpr bool kLarge = kTileRows * kColumnGroups / kGroups == 256, kFeeds = kLarge && kGroups == 2;
  static constexpr int kPanels = kColumnGroups * kWideGroupColumns / kPanel, kWideners = kLarge ? 4 : 8;
  static constexpr int kEach = kPanels / kWideners;  // panels of a widener
  static constexpr int kMostAhead = Narrow::kAhead / (kEach * kGroups), kAhead = kMostAhead > 1 ? kMostAhead : 1;
  static constexpr int kOtherWarps = kWideners + (kFeeds ? 0 : 4), kThreads = (kGroups * 4 + kOtherWarps) * 32;
  // Registers of a multiplying thread and of another one. Their total must not exceed the registers of the block at its
  // launch, or the threads would wait forever.
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kFewRegisters = kGroups == 1 ? 80 : kFeeds ? 56 : 48;
  static constexpr int kRest = (kLaunchRegisters * kThreads - kOtherWarps * 32 * kFewRegisters) / (kGroups * 128);
  static constexpr int kManyRegisters = kRest > 232 ? 232 : kRest / 8 * 8;
  static_assert(!kLarge || kLaunchRegisters >= 168);
};

struct WideArgs {
  WideProduct product;
  const std::byte* panels;  // of the first column
  bool small;               // LinearMxfp4Args
};

// Requests rows of x for a place that is free. Called by one lane.
template <class S>
__device__ __forceinline__ void request_rows(const WideProduct& args, const WidePlace<S>& place, int piece, int row,
                                             int rank) {
  constexpr std::uint16_t kAll = (1u << kWideCluster) - 1;
  expect_bytes(place.full(), S::kRowsBytes);
  copy_piece_to_cluster(place.rows() + rank * (S::kRowsBytes / kWideCluster), args.rows, piece * kWideDepth,
                        row + rank * (S::kTileRows / kWideCluster), place.full(), kAll);
}

// Loads x in the order of its use; used by one lane.
template <class S>
__device__ __forceinline__ void feed(const WideProduct& args, WidePlace<S> place, int rank) {
  const int cluster = static_cast<int>(blockIdx.x) / kWideCluster,
            clusters = static_cast<int>(gridDim.x) / kWideCluster;
#pragma unroll 1
  for (int pair = cluster; pair < args.pairs; pair += clusters) {
    const int row = position_of<S>(args, pair, rank).row * S::kTileRows;
#pragma unroll 1
    for (int piece = 0; piece < args.pieces; ++piece) {
      wait_barrier(place.free(), place.phase ^ 1);
      request_rows<S>(args, place, piece, row, rank);
      place.advance();
    }
  }
}

// The chunks of a widener's panels, in the order of their use: tile after tile. The panels behind the last that has
// columns of y exist (Fp8Layout, Mxfp4Layout).
template <class Narrow, class S>
class Chunks {
 public:
  __device__ Chunks(const WideArgs& args, int widener, int rank)
      : args_(args), first_(widener * S::kEach), rank_(rank), pair_(static_cast<int>(blockIdx.x) / kWideCluster) {
    begin_tile();
  }
  __device__ __forceinline__ void load(Narrow (&to)[S::kEach]) {
    if (pair_ >= args_.product.pairs) return;
#pragma unroll
    for (int i = 0; i < S::kEach; ++i) to[i].load(from_ + i * args_.product.panel_bytes, policy_);
    from_ += Narrow::kChunkBytes;
    if (--left_ == 0) {
      pair_ += static_cast<int>(gridDim.x) / kWideCluster;
      if (pair_ < args_.product.pairs) begin_tile();
    }
  }

 private:
  __device__ void begin_tile() {
    const std::int64_t panel = position_of<S>(args_.product, pair_, rank_).column * S::kPanels + first_;
    from_ = args_.panels + panel * args_.product.panel_bytes;
    left_ = args_.product.pieces / 2;
  }

  const WideArgs& args_;
  const std::uint64_t policy_ = policy_of_what_is_read_once();
  const int first_, rank_;
  int pair_, left_ = 0;  // left_: chunks of the tile
  const std::byte* from_ = nullptr;
};

// Widens a block's panels, chunk after chunk.
template <class Narrow, class S>
__device__ __forceinline__ void widen(const WideArgs& args, WidePlace<S> place, int widener, int rank) {
  const int cluster = static_cast<int>(blockIdx.x) / kWideCluster,
            clusters = static_cast<int>(gridDim.x) / kWideCluster;
  const bool leads = threadIdx.x % 32 == 0;
  Narrow narrow[S::kAhead][S::kEach];
  Chunks<Narrow, S> chunks(args, widener, rank);
#pragma unroll
  for (int i = 0; i < S::kAhead; ++i) chunks.load(narrow[i]);
  if (S::kFeeds && widener == 0) {
    wait_for_kernel_before();
    see_writes();
  }
  const std::uint32_t to = widener * S::kEach * kPanelBytes;
  int pair = cluster, row = position_of<S>(args.product, pair, rank).row * S::kTileRows, piece = 0;  // of x, for kFeeds
  const auto half = [&](const auto& each, auto which) {
    wait_barrier(place.free(), place.phase ^ 1);
    if (S::kFeeds && widener == 0 && leads) request_rows<S>(args.product, place, piece, row, rank);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < S::kEach; ++i) {
      each[i].template store<decltype(which)::value>(place.weights() + to + i * kPanelBytes);
    }
    __syncwarp();
    if (leads) arrive(place.full());
    place.advance();
    ++piece;
  };
  int left = (args.product.pairs - cluster + clusters - 1) / clusters * (args.product.pieces / 2);  // chunks
#pragma unroll 1
  while (true) {
#pragma unroll
    for (int i = 0; i < S::kAhead; ++i) {
      if (left-- == 0) return;
      half(narrow[i], std::integral_constant<int, 0>());
      half(narrow[i], std::integral_constant<int, 1>());
      chunks.load(narrow[i]);
      if (S::kFeeds && piece == args.product.pieces) {
        piece = 0, pair += clusters;
        row = position_of<S>(args.product, pair, rank).row * S::kTileRows;
      }
    }
  }
}

template <class Narrow, class S>
__global__ void __cluster_dims__(kWideCluster, 1, 1) __launch_bounds__(S::kThreads, 1)
    wide_kernel(const __grid_constant__ WideArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  WidePlace<S> place = {shared_address(memory)};
  const int rank = static_cast<int>(rank_in_cluster());
  make_barriers(place.memory + S::kBarriers, S::kPlaces, S::kWideners + 1);
  make_barriers(place.memory + S::kBarriers + 8 * S::kPlaces, S::kPlaces, kWideCluster * S::kUsers);
  publish_barriers();
  wait_for_cluster();
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= S::kUsers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kFewRegisters));
    const int widener = warp - S::kUsers;
    if (widener < S::kWideners) {  // weights do not depend on preceding kernels
      if constexpr (Narrow::kScales == 0) {
        args.small ? widen<NarrowMxfp4<true>>(args, place, widener, rank)
                   : widen<NarrowMxfp4<false>>(args, place, widener, rank);
      } else {
        widen<Narrow>(args, place, widener, rank);
      }
      wait_for_kernel_before();
    } else {
      wait_for_kernel_before();
      see_writes();
      if (widener == S::kWideners && threadIdx.x % 32 == 0) feed<S>(args.product, place, rank);
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kManyRegisters));
    wait_for_kernel_before();
    const int clusters = static_cast<int>(gridDim.x) / kWideCluster;
#pragma unroll 1
    for (int pair = static_cast<int>(blockIdx.x) / kWideCluster; pair < args.product.pairs; pair += clusters) {
      WideTile<S>(args.product, place, position_of<S>(args.product, pair, rank)).compute();
    }
  }
  wait_for_cluster();  // the other block may still write to this block's shared memory
}

using Kernel = void (*)(WideArgs);
struct Choice {
  Kernel kernel;
  int tile_rows, columns, threads, bytes;
};
template <class Narrow, int kTileRows, int kGroups, int kColumnGroups>
Choice choice() {
  using S = Shape<Narrow, kTileRows, kGroups, kColumnGroups>;
  return {wide_kernel<Narrow, S>, kTileRows, S::kColumns, S::kThreads, S::kBytes};
}
// The available tile sizes.
constexpr int kChoices = 6;
template <class Narrow>
Choice choice_of_size(int size) {
  constexpr bool kGrouped = Narrow::kScales == 2;
  constexpr int kMostGroups = kGrouped ? 2 : 1, kMostColumns = kGrouped ? 1 : 2;  // with 256 rows
  switch (size) {
    case 0:
      return choice<Narrow, 64, 1, 1>();
    case 1:
      return choice<Narrow, 64, 2, 2>();
    case 2:
      return choice<Narrow, 128, 1, 1>();
    case 3:
      return choice<Narrow, 128, 2, 2>();
    case 4:
      return choice<Narrow, 256, kMostGroups, 1>();
    default:  // not with scales of groups, whose sums take twice the registers
      return choice<Narrow, 256, 2, kMostColumns>();
  }
}
enum class Format { kFp8Rows, kFp8Groups, kMxfp4 };
Choice choice_of(Format format, int size) {
  switch (format) {
    case Format::kFp8Rows:
      return choice_of_size<NarrowFp8<false>>(size);
    case Format::kFp8Groups:
      return choice_of_size<NarrowFp8<true>>(size);
    default:
      return choice_of_size<NarrowMxfp4<true>>(size);
  }
}

// The pairs of tiles of a size.
std::int64_t pairs_of(const WideProduct& args, const Choice& size) {
  return divided_up(args.n, kWideCluster * size.columns) * divided_up(args.m, size.tile_rows);
}

// The tile size with which a block takes the least time. The choice changes no bit.
Choice cheapest(const WideProduct& args, Format format, int num_blocks) {
  // Cycles of sixteen columns of K for each size (H100, products of an 8B model). Shared memory takes most of them: 128
  // bytes a cycle for writing weights and x, and for each product's reads of both.
  constexpr int kCycles[kChoices] = {90, 165, 111, 200, 162, 290}, kGroupCycles[] = {100, 185, 140, 245, 215};
  const bool grouped = format == Format::kFp8Groups;
  const std::int64_t clusters = num_blocks / kWideCluster;
  Choice best = {};
  std::int64_t least = INT64_MAX;
  for (int size = 0; size < (grouped ? kChoices - 1 : kChoices); ++size) {
    const Choice one = choice_of(format, size);
    const std::int64_t cost =
        divided_up(pairs_of(args, one), clusters) * (grouped ? kGroupCycles[size] : kCycles[size]);
    if (cost < least) least = cost, best = one;
  }
  return best;
}

cudaError_t launch(WideArgs all, Format format, const std::uint16_t* x, std::int64_t k, std::int64_t x_stride,
                   cudaStream_t stream) {
  WideProduct& product = all.product;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const Choice chosen = cheapest(product, format, most);
  const cudaError_t error = describe_fp8_rows(x, product.m, k, x_stride, chosen.tile_rows / kWideCluster, product.rows);
  if (error != cudaSuccess) return error;
  product.whole_lines = writes_whole_lines(product.y, product.y_stride, product.y_type, product.n);
  product.row_tiles = static_cast<std::int32_t>(divided_up(product.m, chosen.tile_rows));
  product.column_tiles = static_cast<std::int32_t>(divided_up(product.n, chosen.columns));
  product.pairs = static_cast<std::int32_t>(pairs_of(product, chosen));
  const int blocks = kWideCluster * std::min(product.pairs, most / kWideCluster);
  return launch_overlapped(chosen.kernel, dim3(static_cast<unsigned>(blocks)), chosen.threads,
                           static_cast<std::size_t>(chosen.bytes), stream, all);
}

template <class Args>
WideArgs wide_args(const Args& args, std::int64_t chunks, std::int64_t panel_bytes) {
  WideArgs all = {};
  all.panels = args.w + args.first_column / kPanel * panel_bytes;
  all.product.pieces = static_cast<std::int32_t>(chunks * 2);
  all.product.bias = args.bias;
  all.product.y = args.y;
  all.product.y_stride = args.y_stride;
  all.product.y_type = args.y_type;
  all.product.m = args.m;
  all.product.n = args.n;
  all.product.panel_bytes = panel_bytes;
  return all;
}

}  // namespace

cudaError_t launch_linear_fp8_wide(const LinearFp8Args& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const Fp8Layout layout(args.format);
  WideArgs all = wide_args(args, layout.chunks, layout.panel_bytes);
  all.product.scales =
      args.format.grouped ? all.panels + kFp8ValueBytes : args.w + layout.scales + args.first_column * 4;
  return launch(all, args.format.grouped ? Format::kFp8Groups : Format::kFp8Rows, args.x, args.format.k, args.x_stride,
                stream);
}

cudaError_t launch_linear_mxfp4_wide(const LinearMxfp4Args& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const Mxfp4Layout layout(args.n, args.k);
  WideArgs all = wide_args(args, layout.chunks, layout.panel_bytes);
  const std::int64_t steps = divided_up(args.k, kMxfp4Step);
  all.product.last_steps = static_cast<std::int32_t>(steps - (layout.chunks - 1) * kMxfp4Steps);
  all.small = args.small;
  return launch(all, Format::kMxfp4, args.x, args.k, args.x_stride, stream);
}

cudaError_t prepare_wide_kernels() {
  for (const Format format : {Format::kFp8Rows, Format::kFp8Groups, Format::kMxfp4}) {
    for (int size = 0; size < kChoices; ++size) {
      const Choice one = choice_of(format, size);
      const cudaError_t error =
          cudaFuncSetAttribute(one.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, one.bytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
