// Three kinds of warps share a block. "Wideners" read weights from memory and write them as bf16 into a ring in shared
// memory. One warp loads x into the same ring. One or two warpgroups multiply, with weights as the a operand (64
// columns of y per warpgroup) and x as the b operand, both from shared memory. A place of the ring has one chunk of K:
// the panels of a tile, and all rows of x.
//
// A narrow product has few columns for each multiprocessor, and each is a chain of dependent instructions, about 35
// cycles a step. That limits the speed, so nothing else may be in the chain: with loads and widening between the steps
// a step took 55 cycles (H100).
#include "kernels/cuda/linear_fp8_widened.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/cuda/widened_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarpgroups = 2, kWarpgroupPanels = 64 / kFp8Panel;
constexpr int kMultipliers = 4 * kWarpgroups, kWideners = 16;  // warps
constexpr int kThreads = (kMultipliers + kWideners + 1) * 32;
constexpr int kMaxPanels = kWarpgroups * kWarpgroupPanels;  // of a tile
constexpr int kTileRows = 8;                                // rows of x
constexpr int kSharedBytes = 203 << 10;  // the rest is left for a block of the preceding or following kernel
constexpr int kAhead = 4;                // panels that a widener has on their way
constexpr int kPanelBytes = kFp8Panel * kFp8Swizzled * 2;  // half a chunk of a panel, widened

// Lanes of a widener that arrive: those that write scales, or one.
template <bool kGrouped>
constexpr int kWriters = kGrouped ? kFp8Panel : 1;

// How a launch divides its work; computed on the host.
struct Split {
  std::int32_t panels;  // of a tile
  std::int32_t tiles;
  std::int32_t places;
};

struct WidenedArgs {
  CUtensorMap rows;  // [m][k]
  LinearFp8Args linear;
  Split split;
  std::int32_t chunks, panels;
  std::int64_t panel_bytes;
  const float* scales;  // with one scale a row
};

// Returns the bytes of half a chunk of x.
constexpr int half_bytes(int row_tiles) {
  return row_tiles * kTileRows * kFp8Swizzled * 2;
}
constexpr WidenedBytes place_bytes(bool grouped, int panels, int row_tiles) {
  // A warpgroup reads the scales of all its columns.
  return {2 * panels * kPanelBytes, 2 * half_bytes(row_tiles), grouped ? kMaxPanels * kFp8ScaleBytes : 0};
}

// A chunk of a panel, as it is in memory.
template <bool kGrouped>
struct Narrow {
  uint4 words[2];
  float scale;  // lane i: of row i % 8

  __device__ __forceinline__ void load(const std::byte* from, std::uint64_t policy) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) words[half] = load_once(from + half * 512 + lane * 16, policy);
    if constexpr (kGrouped) scale = reinterpret_cast<const float*>(from + kFp8ValueBytes)[lane % kFp8Panel];
  }
  // Widens both halves of the chunk. `to`: where the panel's first half is; `half_bytes`: from there to its second
  // half.
  __device__ __forceinline__ void store(std::uint32_t to, int half_bytes) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t row = lane % 8 * kFp8Swizzled * 2, unit = (lane / 8 ^ lane % 8) * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t w[4] = {words[half].x, words[half].y, words[half].z, words[half].w};
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        std::uint32_t v[4];
        widen_fp8(w[i], v[0], v[1]);
        widen_fp8(w[i + 1], v[2], v[3]);
        store_matrices(to + half * half_bytes + row + (unit ^ i * kFp8Step * 2), v);
      }
    }
  }
};

// Widens a block's panels, chunk after chunk. Panels past the weight's last panel load the last panel again; their
// columns of y are not written.
template <bool kGrouped>
__device__ __forceinline__ void widen(const WidenedArgs& args, WidenedPlace place, int widener) {
  const std::uint64_t policy = policy_of_what_is_read_once();
  const std::byte* const first = args.linear.w + args.linear.first_column / kFp8Panel * args.panel_bytes;
  const int lane = static_cast<int>(threadIdx.x) % 32, blocks = static_cast<int>(gridDim.x);
  const int block = static_cast<int>(blockIdx.x), tiles = (args.split.tiles - block + blocks - 1) / blocks;
  Narrow<kGrouped> narrow[kAhead];
  WidenedUnit next(args.split.panels, args.chunks, kWideners), here = next;  // to be loaded, to be widened
  next.begin(widener);
  place.advance(here.begin(widener));
  const auto load = [&](Narrow<kGrouped>& to) {
    if (next.tile >= tiles) return;
    const int panel = min((block + next.tile * blocks) * args.split.panels + next.panel, args.panels - 1);
    to.load(first + panel * args.panel_bytes + next.chunk * fp8_chunk_bytes(kGrouped), policy);
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
      narrow[i].store(place.weights() + here.panel * kPanelBytes, args.split.panels * kPanelBytes);
      if constexpr (kGrouped) {
        if (lane < kFp8Panel) store_scale(place.scales() + (here.panel * kFp8Panel + lane) * 4, narrow[i].scale);
      }
      publish_writes();
      __syncwarp();
      if (lane < kWriters<kGrouped>) arrive(place.full());
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
        copy_piece(place.rows() + half * half_bytes(kRowTiles), args.rows, chunk * kFp8Chunk + half * kFp8Swizzled, 0,
                   place.full());
      }
      place.advance();
    }
  }
}

// A warpgroup's columns of a tile of y. One per thread; methods are called by the whole warpgroup. Invariant: place_ is
// the place of the next chunk to take.
template <bool kGrouped, int kRowTiles>
class Multiplier {
 public:
  __device__ Multiplier(const WidenedArgs& args, const WidenedPlace& place, int warp)
      : args_(args), place_(place), group_(warp / 4), column_(warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4) {}

  __device__ __forceinline__ void compute(int tile) {
    float acc[kRowTiles][4] = {};
    kGrouped ? (kRowTiles > 4 ? add_groups_in_turn(acc) : add_groups(acc))
             : add_row(acc, tile * args_.split.panels * kFp8Panel + column_);
    write(tile, acc);
  }

 private:
  // Adds the terms of the groups. The products of a chunk still run when those of the next one start.
  __device__ __forceinline__ void add_groups(float (&acc)[kRowTiles][4]) {
    float even[kRowTiles][4], odd[kRowTiles][4], even_scale[2], odd_scale[2];
    const auto end = [&](float(&d)[kRowTiles][4], const float(&scale)[2]) {
      hold(d);
      release(before_);
      add(d, scale, acc);
    };
    multiply(even, even_scale, /*adds=*/false);
    int chunk = 1;
#pragma unroll 1
    for (; chunk + 1 < args_.chunks; chunk += 2) {
      multiply(odd, odd_scale, /*adds=*/false);
      wait_products_but_last();
      end(even, even_scale);
      multiply(even, even_scale, /*adds=*/false);
      wait_products_but_last();
      end(odd, odd_scale);
    }
    if (chunk < args_.chunks) {
      multiply(odd, odd_scale, /*adds=*/false);
      wait_products();
      end(even, even_scale);
      before_ = free_;
      end(odd, odd_scale);
    } else {
      wait_products();
      before_ = free_;
      end(even, even_scale);
    }
  }
  // The same with registers for one group: the products of a chunk start when the group before was added.
  __device__ __forceinline__ void add_groups_in_turn(float (&acc)[kRowTiles][4]) {
    float d[kRowTiles][4], scale[2];
#pragma unroll 1
    for (int chunk = 0; chunk < args_.chunks; ++chunk) {
      multiply(d, scale, /*adds=*/false);
      wait_products();
      hold(d);
      release(free_);
      add(d, scale, acc);
    }
  }
  __device__ __forceinline__ void add_row(float (&acc)[kRowTiles][4], int column) {
    float d[kRowTiles][4], scale[2];
#pragma unroll 1
    for (int chunk = 0; chunk < args_.chunks; ++chunk) {
      multiply(d, scale, chunk > 0);
      wait_products_but_last();
      if (chunk > 0) release(before_);
    }
    wait_products();
    hold(d);
    release(free_);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool exists = column + 8 * i < args_.panels * kFp8Panel;
      scale[i] = exists ? args_.scales[args_.linear.first_column + column + 8 * i] : 0.0f;
    }
    add(d, scale, acc);
  }

  // Starts the products of the next chunk. `adds`: accumulate into d; otherwise start from 0. With groups, reads its
  // scales.
  __device__ __forceinline__ void multiply(float (&d)[kRowTiles][4], float (&scale)[2], bool adds) {
    wait_barrier(place_.full(), place_.phase);
    if constexpr (kGrouped) {
#pragma unroll
      for (int i = 0; i < 2; ++i) scale[i] = load_scale(place_.scales() + (column_ + 8 * i) * 4);
    }
    begin_products();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint64_t a =
          matrix(place_.weights() + (half * args_.split.panels + group_ * kWarpgroupPanels) * kPanelBytes, 0, 1024);
      const std::uint64_t b = matrix(place_.rows() + half * half_bytes(kRowTiles), 0, 1024);
#pragma unroll
      for (int step = 0; step < kFp8Steps / 2; ++step) {
        row_product(d, moved(a, step * kFp8Step * 2), moved(b, step * kFp8Step * 2), half + step > 0 || adds);
      }
    }
    commit_products();
    before_ = free_, free_ = place_.free();
    place_.advance();
  }
  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    __syncwarp();  // all lanes have read their scales
    if (threadIdx.x % 32 == 0) arrive(barrier);
  }
  __device__ __forceinline__ void add(const float (&d)[kRowTiles][4], const float (&scale)[2],
                                      float (&acc)[kRowTiles][4]) const {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) acc[i][j] = __fmaf_rn(d[i][j], scale[j / 2], acc[i][j]);
    }
  }
  __device__ __forceinline__ void write(int tile, const float (&acc)[kRowTiles][4]) const {
    const LinearFp8Args& linear = args_.linear;
    const int lane = static_cast<int>(threadIdx.x) % 32, columns = args_.split.panels * kFp8Panel;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = column_ + j / 2 * 8;
        const std::int64_t m = i * kTileRows + lane % 4 * 2 + j % 2, n = std::int64_t{tile} * columns + column;
        if (column >= columns || n >= linear.n || m >= linear.m) continue;
        const float y = linear.bias == nullptr ? acc[i][j] : __fadd_rn(acc[i][j], linear.bias[n]);
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

template <bool kGrouped, int kRowTiles>
__global__ void __launch_bounds__(kThreads, 1) fp8_widened_kernel(const __grid_constant__ WidenedArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const Split& split = args.split;
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpgroups = split.panels > kWarpgroupPanels ? 2 : 1;
  const WidenedPlace place = {shared_address(memory), place_bytes(kGrouped, split.panels, kRowTiles), split.places};
  place.make_all_barriers(split.panels * kWriters<kGrouped>, warpgroups * 4);
  publish_barriers();
  __syncthreads();
  if (warp >= kMultipliers && warp < kMultipliers + kWideners) {  // weights do not depend on preceding kernels
    widen<kGrouped>(args, place, warp - kMultipliers);
    wait_for_kernel_before();
    return;
  }
  wait_for_kernel_before();
  if (warp < warpgroups * 4) {
    Multiplier<kGrouped, kRowTiles> multiplier(args, place, warp);
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
template <bool kGrouped>
Kernel kernel_of(int row_tiles) {
  return row_tiles == 1   ? fp8_widened_kernel<kGrouped, 1>
         : row_tiles == 2 ? fp8_widened_kernel<kGrouped, 2>
         : row_tiles == 4 ? fp8_widened_kernel<kGrouped, 4>
                          : fp8_widened_kernel<kGrouped, 8>;
}
Kernel kernel_of(bool grouped, int row_tiles) {
  return grouped ? kernel_of<true>(row_tiles) : kernel_of<false>(row_tiles);
}

constexpr int kFewestPanelsOfManyRows = 2;

constexpr int places_of(bool grouped, int panels, int row_tiles) {
  return std::min((kSharedBytes - kWidenedBarrierBytes) / place_bytes(grouped, panels, row_tiles).all(),
                  kMaxWidenedPlaces);
}
static_assert(places_of(true, 1, 4) >= kWideners && places_of(true, kFewestPanelsOfManyRows, 8) >= kWideners / 2);

}  // namespace

cudaError_t launch_linear_fp8_widened(const LinearFp8Args& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const Fp8Layout layout(args.format);
  const int row_tiles = args.m <= kTileRows ? 1 : args.m <= 2 * kTileRows ? 2 : args.m <= 4 * kTileRows ? 4 : 8;
  WidenedArgs all = {};
  all.linear = args;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.panels = static_cast<std::int32_t>((args.n + kFp8Panel - 1) / kFp8Panel);
  all.panel_bytes = layout.panel_bytes;
  all.scales = reinterpret_cast<const float*>(args.w + layout.scales);
  // A widener must not be two passes over the ring ahead of the products, which a barrier could not tell from none.
  const int fewest = row_tiles == 8 ? kFewestPanelsOfManyRows : 1;
  const int panels = std::max(best_widened_panels(all.panels, most, kMaxPanels, 4), fewest);
  const int bytes = place_bytes(args.format.grouped, panels, row_tiles).all();
  const int places = places_of(args.format.grouped, panels, row_tiles);
  all.split = {panels, (all.panels + panels - 1) / panels, places};
  const cudaError_t error =
      describe_fp8_rows(args.x, args.m, args.format.k, args.x_stride, row_tiles * kTileRows, all.rows);
  if (error != cudaSuccess) return error;
  return launch_overlapped(kernel_of(args.format.grouped, row_tiles),
                           dim3(static_cast<unsigned>(std::min(all.split.tiles, most))), kThreads,
                           static_cast<std::size_t>(places * bytes + kWidenedBarrierBytes), stream, all);
}

cudaError_t prepare_fp8_widened_kernels() {
  // Products read whole warpgroups of columns: up to (kWarpgroupPanels - 1) panels past the last weights. Even with the
  // largest tiles the area of x, which follows the weights, is longer than that.
  constexpr int kMin = places_of(/*grouped=*/true, kMaxPanels, 8);
  static_assert(kMin >= 4 && kMin * 2 * half_bytes(1) >= (kWarpgroupPanels - 1) * kPanelBytes);
  for (const bool grouped : {false, true}) {
    for (const int row_tiles : {1, 2, 4, 8}) {
      const cudaError_t error = cudaFuncSetAttribute(kernel_of(grouped, row_tiles),
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
