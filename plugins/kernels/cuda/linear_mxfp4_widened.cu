// The warps of a block as in linear_fp8_widened.cu. There are no scales beside the widened weights, so a product is one
// chain of instructions over all of K.
#include "kernels/cuda/linear_mxfp4_widened.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/mxfp4_rows.cuh"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/cuda/widened_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarpgroups = 2, kWarpgroupPanels = 64 / kMxfp4Panel;
constexpr int kMultipliers = 4 * kWarpgroups, kWideners = 16;  // warps
constexpr int kThreads = (kMultipliers + kWideners + 1) * 32;
constexpr int kMaxPanels = kWarpgroups * kWarpgroupPanels;  // of a tile
constexpr int kTileRows = 8;                                // rows of x
constexpr int kSharedBytes = 203 << 10;                     // as in linear_fp8_widened.cu
constexpr int kAhead = 6;                                   // panels that a widener has on their way
constexpr int kSwizzled = 64;                               // elements along K that are swizzled together
constexpr int kPanelBytes = kMxfp4Panel * kSwizzled * 2;    // half a chunk of a panel, widened
static_assert(kMaxPanels * kMxfp4Panel <= kMxfp4TileColumns, "panels behind the last that are read exist");

// How a launch divides its work; computed on the host.
struct Split {
  std::int32_t panels;  // of a tile
  std::int32_t tiles;
  std::int32_t places;
};

struct WidenedArgs {
  CUtensorMap rows;  // [m][k]
  LinearMxfp4Args linear;
  Split split;
  std::int32_t chunks, panels;
  std::int32_t last_steps;  // of the last chunk: only as many as K has, since zeros would turn a sum of -0 into +0
  std::int64_t panel_bytes;
};

// Returns the bytes of half a chunk of x.
constexpr int half_bytes(int row_tiles) {
  return row_tiles * kTileRows * kSwizzled * 2;
}
constexpr WidenedBytes place_bytes(int panels, int row_tiles) {
  return {2 * panels * kPanelBytes, 2 * half_bytes(row_tiles), 0};
}

// A chunk of a panel, as it is in memory.
struct Narrow {
  uint4 words;
  std::uint32_t exponents;  // of row lane / 4

  __device__ __forceinline__ void load(const std::byte* from, std::uint64_t policy) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    words = load_once(from + lane * 16, policy);
    exponents = __ldg(reinterpret_cast<const std::uint32_t*>(from + kMxfp4ValueBytes) + lane / 4);
  }
  // Widens both halves of the chunk. `to`: where the panel's first half is; `half_bytes`: from there to its second
  // half.
  template <bool kSmall>
  __device__ __forceinline__ void store(std::uint32_t to, int half_bytes) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t row = lane % 8 * kSwizzled * 2, unit = (lane / 8 ^ lane % 8) * 16;
    const std::uint32_t w[kMxfp4Groups] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int group = 0; group < kMxfp4Groups; ++group) {
      std::uint32_t v[4];
      widen_mxfp4<kSmall>(w[group], factors_of<kSmall>(exponents, group), v);
      store_matrices(to + group / 2 * half_bytes + row + (unit ^ group % 2 * kMxfp4Columns * 2), v);
    }
  }
};

// Widens a block's panels, chunk after chunk. Panels past the weight's last panel load the last panel again; their
// columns of y are not written.
template <bool kSmall>
__device__ __forceinline__ void widen(const WidenedArgs& args, WidenedPlace place, int widener) {
  const std::uint64_t policy = policy_of_what_is_read_once();
  const std::byte* const first = args.linear.w + args.linear.first_column / kMxfp4Panel * args.panel_bytes;
  const int blocks = static_cast<int>(gridDim.x);
  const int block = static_cast<int>(blockIdx.x), tiles = (args.split.tiles - block + blocks - 1) / blocks;
  Narrow narrow[kAhead];
  WidenedUnit next(args.split.panels, args.chunks, kWideners), here = next;  // to be loaded, to be widened
  next.begin(widener);
  place.advance(here.begin(widener));
  const auto load = [&](Narrow& to) {
    if (next.tile >= tiles) return;
    const int panel = min((block + next.tile * blocks) * args.split.panels + next.panel, args.panels - 1);
    to.load(first + panel * args.panel_bytes + next.chunk * kMxfp4ChunkBytes, policy);
    next.advance();
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(narrow[i]);
#pragma unroll 1
  while (true) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (here.tile >= tiles) return;
      wait_barrier(place.free(), place.phase ^ 1);
      __syncwarp();
      narrow[i].store<kSmall>(place.weights() + here.panel * kPanelBytes, args.split.panels * kPanelBytes);
      publish_writes();
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(place.full());
      load(narrow[i]);
      place.advance(here.advance());
    }
  }
}

// Loads x, once for each tile; used by one lane.
template <int kRowTiles>
__device__ __forceinline__ void feed_rows(const WidenedArgs& args, WidenedPlace place) {
  for (int tile = static_cast<int>(blockIdx.x); tile < args.split.tiles; tile += static_cast<int>(gridDim.x)) {
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
      wait_barrier(place.free(), place.phase ^ 1);
      expect_bytes(place.full(), 2 * half_bytes(kRowTiles));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        copy_piece(place.rows() + half * half_bytes(kRowTiles), args.rows, chunk * kMxfp4Chunk + half * kSwizzled, 0,
                   place.full());
      }
      place.advance();
    }
  }
}

// A warpgroup's columns of a tile of y. One per thread; methods are called by the whole warpgroup. Invariant: place_ is
// the place of the next chunk to take.
template <int kRowTiles>
class Multiplier {
 public:
  __device__ Multiplier(const WidenedArgs& args, const WidenedPlace& place, int warp)
      : args_(args), place_(place), group_(warp / 4), column_(warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4) {}

  __device__ __forceinline__ void compute(int tile) {
    float d[kRowTiles][4] = {};
    hold(d);
    // The products of a chunk still run when those of the next one start.
#pragma unroll 1
    for (int chunk = 0; chunk + 1 < args_.chunks; ++chunk) {
      multiply<true>(d);
      wait_products_but_last();
      if (chunk > 0) release(before_);
    }
    multiply<false>(d);
    wait_products();
    hold(d);
    if (args_.chunks > 1) release(before_);
    release(free_);
    write(tile, d);
  }

 private:
  // Starts the products of the next chunk.
  template <bool kWhole>
  __device__ __forceinline__ void multiply(float (&d)[kRowTiles][4]) {
    wait_barrier(place_.full(), place_.phase);
    begin_products();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint64_t a =
          matrix(place_.weights() + (half * args_.split.panels + group_ * kWarpgroupPanels) * kPanelBytes, 0, 1024);
      const std::uint64_t b = matrix(place_.rows() + half * half_bytes(kRowTiles), 0, 1024);
#pragma unroll
      for (int step = 0; step < kMxfp4Steps / 2; ++step) {
        if (!kWhole && half * (kMxfp4Steps / 2) + step >= args_.last_steps) break;
        row_product(d, moved(a, step * kMxfp4Step * 2), moved(b, step * kMxfp4Step * 2), /*adds=*/true);
      }
    }
    commit_products();
    before_ = free_, free_ = place_.free();
    place_.advance();
  }
  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(barrier);
  }
  __device__ __forceinline__ void write(int tile, const float (&d)[kRowTiles][4]) const {
    const LinearMxfp4Args& linear = args_.linear;
    const int lane = static_cast<int>(threadIdx.x) % 32, columns = args_.split.panels * kMxfp4Panel;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = column_ + j / 2 * 8;
        const std::int64_t m = i * kTileRows + lane % 4 * 2 + j % 2, n = std::int64_t{tile} * columns + column;
        if (column >= columns || n >= linear.n || m >= linear.m) continue;
        const float y = linear.bias == nullptr ? d[i][j] : __fadd_rn(d[i][j], linear.bias[n]);
        if (linear.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(linear.y)[m * linear.y_stride + n], y);
        } else {
          put(static_cast<float*>(linear.y)[m * linear.y_stride + n], y);
        }
      }
    }
  }

  const WidenedArgs& args_;
  WidenedPlace place_;
  const int group_, column_;             // in the tile
  std::uint32_t free_ = 0, before_ = 0;  // barriers of the last chunk that was started, and of the one before
};

template <int kRowTiles>
__global__ void __launch_bounds__(kThreads, 1) mxfp4_widened_kernel(const __grid_constant__ WidenedArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const Split& split = args.split;
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpgroups = split.panels > kWarpgroupPanels ? 2 : 1;
  const WidenedPlace place = {shared_address(memory), place_bytes(split.panels, kRowTiles), split.places};
  place.make_all_barriers(split.panels, warpgroups * 4);
  publish_barriers();
  __syncthreads();
  if (warp >= kMultipliers && warp < kMultipliers + kWideners) {  // weights do not depend on preceding kernels
    args.linear.small ? widen<true>(args, place, warp - kMultipliers) : widen<false>(args, place, warp - kMultipliers);
    wait_for_kernel_before();
    return;
  }
  wait_for_kernel_before();
  if (warp < warpgroups * 4) {
    Multiplier<kRowTiles> multiplier(args, place, warp);
#pragma unroll 1
    for (int tile = static_cast<int>(blockIdx.x); tile < split.tiles; tile += static_cast<int>(gridDim.x)) {
      multiplier.compute(tile);
    }
  } else if (warp == kMultipliers + kWideners && lane == 0) {
    see_writes();
    feed_rows<kRowTiles>(args, place);
  }
}

using Kernel = void (*)(WidenedArgs);
Kernel kernel_of(int row_tiles) {
  return row_tiles == 2 ? mxfp4_widened_kernel<2> : row_tiles == 4 ? mxfp4_widened_kernel<4> : mxfp4_widened_kernel<8>;
}

constexpr int kFewestPanelsOfManyRows = 2;

constexpr int places_of(int panels, int row_tiles) {
  return std::min((kSharedBytes - kWidenedBarrierBytes) / place_bytes(panels, row_tiles).all(), kMaxWidenedPlaces);
}
static_assert(places_of(1, 4) >= kWideners && places_of(kFewestPanelsOfManyRows, 8) >= kWideners / 2);
static_assert(places_of(kMaxPanels, 8) >= 2);

cudaError_t launch_rows(const LinearMxfp4Args& args, cudaStream_t stream) {
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const Mxfp4Layout layout(args.n, args.k);
  // A kernel for up to eight rows was 5 % faster. It was left out because of a crash, which turned out to have another
  // cause (bench/results/2026-11-27-cuda.md), so it could come back.
  const int row_tiles = args.m <= 2 * kTileRows ? 2 : args.m <= 4 * kTileRows ? 4 : 8;
  WidenedArgs all = {};
  all.linear = args;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.panels = static_cast<std::int32_t>((args.n + kMxfp4Panel - 1) / kMxfp4Panel);
  all.panel_bytes = layout.panel_bytes;
  const std::int64_t steps = (args.k + kMxfp4Step - 1) / kMxfp4Step;
  all.last_steps = static_cast<std::int32_t>(steps - (layout.chunks - 1) * kMxfp4Steps);
  // A widener must not be two passes over the ring ahead of the products, which a barrier could not tell from none.
  const int fewest = row_tiles == 8 ? kFewestPanelsOfManyRows : 1;
  const int panels = std::max(best_widened_panels(all.panels, most, kMaxPanels, 4), fewest);
  const int bytes = place_bytes(panels, row_tiles).all();
  const int places = places_of(panels, row_tiles);
  all.split = {panels, (all.panels + panels - 1) / panels, places};
  const cudaError_t error = describe_pieces(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, args.x, args.m, args.k, args.x_stride * 2,
                                            row_tiles * kTileRows, kSwizzled, all.rows);
  if (error != cudaSuccess) return error;
  return launch_overlapped(kernel_of(row_tiles), dim3(static_cast<unsigned>(std::min(all.split.tiles, most))), kThreads,
                           static_cast<std::size_t>(places * bytes + kWidenedBarrierBytes), stream, all);
}

}  // namespace

cudaError_t launch_linear_mxfp4_widened(const LinearMxfp4Args& args, cudaStream_t stream) {
  if (args.n == 0) return cudaSuccess;
  for (std::int64_t first = 0; first < args.m; first += kMxfp4WidenedRows) {
    LinearMxfp4Args rows = args;
    rows.x += first * args.x_stride;
    rows.y = static_cast<std::byte*>(args.y) + first * args.y_stride * element_bytes(args.y_type);
    rows.m = std::min(kMxfp4WidenedRows, args.m - first);
    if (const cudaError_t error = launch_rows(rows, stream); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t prepare_mxfp4_widened_kernels() {
  // Products read whole warpgroups of columns: up to (kWarpgroupPanels - 1) panels past the last weights. Even with the
  // largest tiles the area of x, which follows the weights, is longer than that.
  constexpr int kFewest = (kSharedBytes - kWidenedBarrierBytes) / place_bytes(kMaxPanels, 8).all();
  static_assert(kFewest >= 4 && kFewest * 2 * half_bytes(1) >= (kWarpgroupPanels - 1) * kPanelBytes);
  for (const int row_tiles : {2, 4, 8}) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel_of(row_tiles), cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
