// The warps of a block as in linear_fp8_widened.cu. Wideners write weights as signed bytes, value - zero point.
#include "kernels/cuda/linear_int4_widened.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/int_rows.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/cuda/widened_ring.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarpgroups = 2, kWarpgroupPanels = 64 / kIntPanel;
constexpr int kMultipliers = 4 * kWarpgroups, kWideners = 16;  // warps
constexpr int kThreads = (kMultipliers + kWideners + 1) * 32;
constexpr int kMaxPanels = kWarpgroups * kWarpgroupPanels;  // of a tile
constexpr std::int64_t kTileRows = 8, kMaxRows = 32;        // rows of x
constexpr int kSharedBytes = 203 << 10;                     // as in linear_fp8_widened.cu
constexpr int kPanelBytes = kIntPanel * kIntChunk;          // a chunk of a panel, widened

// How a launch divides its work; computed on the host.
struct Split {
  std::int32_t panels;  // of a tile
  std::int32_t tiles;
  std::int32_t places;
};

struct WidenedArgs {
  CUtensorMap q;  // [m][chunks * kIntChunk] bytes
  LinearIntArgs linear;
  Split split;
  std::int32_t chunks, panels;
  std::uint32_t panel_bytes;
  const float* row_scales;
};

constexpr WidenedBytes place_bytes(int sets, int panels, int row_tiles) {
  // A warpgroup reads the scales of all its columns.
  return {panels * kPanelBytes, row_tiles * static_cast<int>(kTileRows) * kIntChunk, sets * kMaxPanels * kIntPanel * 4};
}

// A chunk of a panel, as it is in memory. Lane i has the scale and zero point of column i % 16 of each set.
template <int kSets>
struct Narrow {
  uint4 words[2];
  float scale[kSets];
  std::uint32_t zero[kSets];

  __device__ __forceinline__ void load(const std::byte* from, std::uint64_t policy) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) words[i] = load_once(from + i * 512 + lane * 16, policy);
#pragma unroll
    for (int i = 0; i < kSets; ++i) {
      const std::byte* const set = from + 1024 + i * kIntSetBytes;
      scale[i] = reinterpret_cast<const float*>(set)[lane % kIntPanel];
      zero[i] = reinterpret_cast<const std::uint8_t*>(set + 4 * kIntPanel)[lane % kIntPanel];
    }
  }
  // Widens the chunk. `to`: where the panel's chunk is; rows 8 to 15 are 1024 bytes further on.
  __device__ __forceinline__ void store(std::uint32_t to) const {
    constexpr int kSteps = kIntSteps / kSets;  // in a set
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t row = to + lane / 8 % 2 * 1024 + lane % 8 * kIntChunk, swizzle = lane % 8;
    std::uint32_t less_zero[kSets][2];  // of the lane's two rows, 128 - zero point in all bytes
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        less_zero[set][half] = 0x80808080u - __shfl_sync(0xffffffffu, zero[set], lane / 4 + half * 8) * 0x01010101u;
      }
    }
#pragma unroll
    for (int step = 0; step < kIntSteps; ++step) {
      const uint4& vector = words[step / 2];
      const std::uint32_t w[4] = {vector.x, vector.y, vector.z, vector.w};
      std::uint32_t v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t values = (step % 2 == 0 ? w[j] : w[j] >> 4) & 0x0f0f0f0fu;
        v[j] = (values + less_zero[step / kSteps][j % 2]) ^ 0x80808080u;  // no byte carries to the next
      }
      store_matrices(row + (static_cast<std::uint32_t>(2 * step + lane / 16) ^ swizzle) * 16, v);
    }
  }
};

// Widens a block's panels, chunk after chunk. Panels past the weight's last panel load the last panel again; their
// columns of y are not written.
template <int kSets>
__device__ __forceinline__ void widen(const WidenedArgs& args, WidenedPlace place, int widener) {
  const std::uint64_t policy = policy_of_what_is_read_once();
  const std::byte* const first = args.linear.w + args.linear.first_column / kIntPanel * std::int64_t{args.panel_bytes};
  const int lane = static_cast<int>(threadIdx.x) % 32, blocks = static_cast<int>(gridDim.x);
  const int block = static_cast<int>(blockIdx.x), tiles = (args.split.tiles - block + blocks - 1) / blocks;
  constexpr int kAhead = kSets == 1 ? 3 : kSets == 2 ? 2 : 1;  // panels on their way, as registers allow
  Narrow<kSets> narrow[kAhead];
  WidenedUnit next(args.split.panels, args.chunks, kWideners), here = next;  // to be loaded, to be widened
  next.begin(widener);
  place.advance(here.begin(widener));
  const auto load = [&](Narrow<kSets>& to) {
    if (next.tile >= tiles) return;
    const int panel = min((block + next.tile * blocks) * args.split.panels + next.panel, args.panels - 1);
    const auto chunk = static_cast<std::uint32_t>(next.chunk * int_chunk_bytes(4, kSets));
    to.load(first + std::uint64_t{static_cast<std::uint32_t>(panel)} * args.panel_bytes + chunk, policy);
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
      narrow[i].store(place.weights() + here.panel * kPanelBytes);
      if (lane < kIntPanel) {
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          const int column = (set * kMaxPanels + here.panel) * kIntPanel + lane;
          store_scale(place.scales() + column * 4, narrow[i].scale[set]);
        }
      }
      publish_writes();
      __syncwarp();
      if (lane < kIntPanel) arrive(place.full());  // those that write scales
      load(narrow[i]);
      place.advance(here.advance());
    }
  }
}

// Loads q, once for each tile; used by one lane.
__device__ __forceinline__ void feed_rows(const WidenedArgs& args, WidenedPlace place) {
  for (int tile = static_cast<int>(blockIdx.x); tile < args.split.tiles; tile += static_cast<int>(gridDim.x)) {
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
      wait_barrier(place.free(), place.phase ^ 1);
      expect_bytes(place.full(), place.bytes.rows);
      copy_piece(place.rows(), args.q, chunk * kIntChunk, 0, place.full());
      place.advance();
    }
  }
}

// A warpgroup's columns of a tile of y. One per thread; methods are called by the whole warpgroup. Invariant: place_ is
// the place of the next chunk to take.
template <int kSets, int kRowTiles>
class Multiplier {
  static constexpr int kSteps = kIntSteps / kSets;     // in a set
  static constexpr int kTogether = kSets > 1 ? 2 : 1;  // sets whose products run together, independent of each other
  // If registers allow, the products of a chunk run while the sums of the one before are added.
  static constexpr bool kOverlaps = kTogether == kSets && kTogether * kRowTiles <= 4;
  struct Sums {
    std::int32_t d[kTogether][kRowTiles][4];
    float scale[kTogether][2];
  };

 public:
  __device__ Multiplier(const WidenedArgs& args, const WidenedPlace& place, int warp)
      : args_(args), place_(place), group_(warp / 4), column_(warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4) {}

  __device__ __forceinline__ void compute(int tile) {
    float acc[kRowTiles][4] = {};
    if constexpr (kOverlaps) {
      add_overlapped(acc);
    } else {
      add_one_by_one(acc);
    }
    write(tile, acc);
  }

 private:
  __device__ __forceinline__ void add_overlapped(float (&acc)[kRowTiles][4]) {
    Sums even, odd;
    const auto end_before = [&](Sums& sums) {
      wait_products_but_last();
      end(sums, acc);
      release(before_);
    };
    const auto end_last = [&](Sums& sums) {
      wait_products();
      end(sums, acc);
      release(here_.free);
    };
    next_chunk();
    start<0>(even);
    int chunk = 1;
#pragma unroll 1
    for (; chunk + 1 < args_.chunks; chunk += 2) {
      next_chunk();
      start<0>(odd);
      end_before(even);
      next_chunk();
      start<0>(even);
      end_before(odd);
    }
    if (chunk == args_.chunks) return end_last(even);
    next_chunk();
    start<0>(odd);
    end_before(even);
    end_last(odd);
  }
  __device__ __forceinline__ void add_one_by_one(float (&acc)[kRowTiles][4]) {
    Sums sums;
#pragma unroll 1
    for (int chunk = 0; chunk < args_.chunks; ++chunk) {
      next_chunk();
      start<0>(sums);
      wait_products();
      end(sums, acc);
      if constexpr (kTogether < kSets) {
        start<kTogether>(sums);
        wait_products();
        end(sums, acc);
      }
      release(here_.free);
    }
  }

  __device__ __forceinline__ void next_chunk() {
    wait_barrier(place_.full(), place_.phase);
    before_ = here_.free;
    here_ = {matrix(place_.weights() + group_ * (kWarpgroupPanels * kPanelBytes), 0, 1024),
             matrix(place_.rows(), 0, 1024), place_.scales(), place_.free()};
    place_.advance();
  }
  // Starts the products of kTogether sets of the chunk, from set kFirst on.
  template <int kFirst>
  __device__ __forceinline__ void start(Sums& sums) {
#pragma unroll
    for (int set = 0; set < kTogether; ++set) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = (kFirst + set) * kMaxPanels * kIntPanel + column_ + 8 * i;
        sums.scale[set][i] = load_scale(here_.scales + column * 4);
      }
    }
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int set = 0; set < kTogether; ++set) {
        const int bytes = ((kFirst + set) * kSteps + step) * kIntStep;
        row_product(sums.d[set], moved(here_.weights, bytes), moved(here_.rows, bytes), step > 0);
      }
    }
    commit_products();
  }
  __device__ __forceinline__ void end(Sums& sums, float (&acc)[kRowTiles][4]) const {
#pragma unroll
    for (int set = 0; set < kTogether; ++set) {
      hold(sums.d[set]);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          acc[i][j] = __fadd_rn(acc[i][j], __fmul_rn(__int2float_rn(sums.d[set][i][j]), sums.scale[set][j / 2]));
        }
      }
    }
    hold(acc);  // so that the compiler does not add after the next products have started
  }
  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    __syncwarp();  // all lanes have read their scales
    if (threadIdx.x % 32 == 0) arrive(barrier);
  }
  __device__ __forceinline__ void write(int tile, const float (&acc)[kRowTiles][4]) const {
    const LinearIntArgs& linear = args_.linear;
    const int lane = static_cast<int>(threadIdx.x) % 32, columns = args_.split.panels * kIntPanel;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = column_ + j / 2 * 8;
        const std::int64_t m = i * kTileRows + lane % 4 * 2 + j % 2, n = std::int64_t{tile} * columns + column;
        if (column >= columns || n >= linear.n || m >= linear.m) continue;
        float y = __fmul_rn(acc[i][j], args_.row_scales[m]);
        if (linear.bias != nullptr) y = __fadd_rn(y, linear.bias[n]);
        if (linear.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(linear.y)[m * linear.y_stride + n], y);
        } else {
          put(static_cast<float*>(linear.y)[m * linear.y_stride + n], y);
        }
      }
    }
  }

  const WidenedArgs& args_;
  WidenedPlace place_;        // the next one
  const int group_, column_;  // in the tile
  struct {
    std::uint64_t weights, rows;
    std::uint32_t scales, free;
  } here_ = {};               // the place whose products were started last
  std::uint32_t before_ = 0;  // the "free" barrier of the place before that
};

template <int kSets, int kRowTiles>
__global__ void __launch_bounds__(kThreads, 1) int4_widened_kernel(const __grid_constant__ WidenedArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const Split& split = args.split;
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpgroups = split.panels > kWarpgroupPanels ? 2 : 1;
  const WidenedPlace place = {shared_address(memory), place_bytes(kSets, split.panels, kRowTiles), split.places};
  place.make_all_barriers(split.panels * kIntPanel, warpgroups * 4);
  publish_barriers();
  __syncthreads();
  if (warp >= kMultipliers && warp < kMultipliers + kWideners) {  // weights do not depend on preceding kernels
    widen<kSets>(args, place, warp - kMultipliers);
    wait_for_kernel_before();
    return;
  }
  wait_for_kernel_before();
  if (warp < warpgroups * 4) {
    Multiplier<kSets, kRowTiles> multiplier(args, place, warp);
#pragma unroll 1
    for (int tile = static_cast<int>(blockIdx.x); tile < split.tiles; tile += static_cast<int>(gridDim.x)) {
      multiplier.compute(tile);
    }
  } else if (warp == kMultipliers + kWideners && lane == 0) {
    see_writes();
    feed_rows(args, place);
  }
}

using Kernel = void (*)(WidenedArgs);
template <int kSets>
Kernel kernel_of(int row_tiles) {
  return row_tiles == 1   ? int4_widened_kernel<kSets, 1>
         : row_tiles == 2 ? int4_widened_kernel<kSets, 2>
                          : int4_widened_kernel<kSets, 4>;
}
Kernel kernel_of(int sets, int row_tiles) {
  return sets == 1 ? kernel_of<1>(row_tiles) : sets == 2 ? kernel_of<2>(row_tiles) : kernel_of<4>(row_tiles);
}

}  // namespace

bool widens_int4(const LinearIntArgs& args) {
  const IntLayout layout(args.format);
  return args.format.bits == 4 && args.m <= kMaxRows && !layout.whole && args.format.group_size == layout.column_group;
}

std::uint64_t widened_int4_workspace_bytes(const LinearIntArgs& args) {
  return int_rows_bytes(args, /*sums=*/false);
}

cudaError_t launch_linear_int4_widened(const LinearIntArgs& args, void* workspace, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const IntLayout layout(args.format);
  const IntRows rows = int_rows_in(workspace, args, /*sums=*/false);
  if (const cudaError_t error = launch_quantize_rows(args, rows, stream); error != cudaSuccess) return error;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const int row_tiles = args.m <= kTileRows       ? 1
                        : args.m <= 2 * kTileRows ? 2
                                                  : 4,
            sets = kIntChunk / layout.column_group;
  WidenedArgs all = {};
  all.linear = args;
  all.row_scales = rows.scales;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.panels = static_cast<std::int32_t>((args.n + kIntPanel - 1) / kIntPanel);
  all.panel_bytes = static_cast<std::uint32_t>(layout.panel_bytes);
  const int panels = best_widened_panels(all.panels, most, kMaxPanels, 2);
  const int bytes = place_bytes(sets, panels, row_tiles).all();
  const int places = std::min((kSharedBytes - kWidenedBarrierBytes) / bytes, kMaxWidenedPlaces);
  all.split = {panels, (all.panels + panels - 1) / panels, places};
  const cudaError_t error = describe_pieces(CU_TENSOR_MAP_DATA_TYPE_UINT8, rows.q, args.m, rows.row_bytes,
                                            rows.row_bytes, row_tiles * static_cast<int>(kTileRows), kIntChunk, all.q);
  if (error != cudaSuccess) return error;
  return launch_overlapped(kernel_of(sets, row_tiles), dim3(static_cast<unsigned>(std::min(all.split.tiles, most))),
                           kThreads, static_cast<std::size_t>(places * bytes + kWidenedBarrierBytes), stream, all);
}

cudaError_t prepare_int4_widened_kernels() {
  // Products read whole warpgroups of columns: up to (kWarpgroupPanels - 1) panels past the last weights. Even with the
  // largest tiles the areas of x and scales, which follow the weights, are longer than that.
  constexpr int kMin = (kSharedBytes - kWidenedBarrierBytes) / place_bytes(4, kMaxPanels, 4).all();
  static_assert(kMin >= 4 && kMin * place_bytes(1, 1, 1).rows + kMin * place_bytes(1, 1, 1).scales >=
                                 (kWarpgroupPanels - 1) * kPanelBytes);
  for (const int sets : {1, 2, 4}) {
    for (const int row_tiles : {1, 2, 4}) {
      const cudaError_t error =
          cudaFuncSetAttribute(kernel_of(sets, row_tiles), cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
