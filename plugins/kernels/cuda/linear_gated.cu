#include "kernels/cuda/linear_gated.hpp"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/gated_tile.cuh"
#include "kernels/cuda/linear_stream.hpp"

namespace mortise::cuda {
namespace {

using namespace gated;

template <class S>
__global__ void __cluster_dims__(S::kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    gated_kernel(const __grid_constant__ GatedArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const Place<S> place = {shared_address(memory)};
  make_barriers(place.memory + S::kBarriers, S::kPlaces, 1);
  make_barriers(place.memory + S::kBarriers + 8 * S::kPlaces, S::kPlaces, S::kCluster * kUsers);
  make_barriers(sums_full<S>(place.memory, 0), kGroups, 4);
  make_barriers(sums_free<S>(place.memory, 0), kGroups, kActivatingWarps);
  publish_barriers();
  if constexpr (S::kCluster > 1) {
    wait_for_cluster();
  } else {
    __syncthreads();
  }
  const int unit = static_cast<int>(blockIdx.x) / S::kCluster, step = static_cast<int>(gridDim.x) / S::kCluster;
  const int units = args.row_units * args.column_tiles;
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);  // tells ptxas that it is uniform
  if (warp >= kUsers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    if (warp == kUsers) {
      Feeder<S>(args, place).feed(unit, units, step);
    } else {
      wait_for_kernel_before();
      activate_tiles<S>(args, place.memory, unit, units, step);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
    wait_for_kernel_before();
    multiply_tiles<S>(args, place, unit, units, step);
  }
  __syncwarp();
  if constexpr (S::kCluster > 1) wait_for_cluster();  // the other block may still reach this block's shared memory
}

using Kernel = void (*)(GatedArgs);
struct TileSize {
  Kernel kernel;
  int columns, cluster, bytes;
};
template <class S>
constexpr TileSize size_of() {
  return {gated_kernel<S>, S::kColumns, S::kCluster, S::kBytes};
}
constexpr int kSmallColumns = 64;
constexpr TileSize kSizes[] = {size_of<Shape<56, 1>>(), size_of<Shape<64, 1>>(), size_of<Shape<112, 1>>(),
                               size_of<Shape<112, 2>>(), size_of<Shape<128, 2>>()};
static_assert(std::size(kSizes) == kNumGatedTileSizes);

// What tile_of (gated_tile.cuh) calls units, along the rows, and the tiles along the columns.
std::int64_t row_units(const LinearArgs& args, const TileSize& size) {
  return divided_up(args.m, kTileRows * size.cluster);
}
std::int64_t column_tiles(const LinearArgs& args, const TileSize& size) {
  return divided_up(args.n / 2, size.columns);
}

// The tile size with which a block takes the least time. The choice changes no bit.
int cheapest(const LinearArgs& args, int num_blocks) {
  // The time of a tile is proportional to its columns of the product plus twelve (fitted to 28672 columns of 4096, 128
  // to 8192 rows, H200). Without clusters each block reads all of its weights from the L2: 256 rows take 93 us in place
  // of 89.
  constexpr std::int64_t kFixedColumns = 12, kAloneCost = 21, kClusterCost = 20;
  int best = 0;
  std::int64_t least = INT64_MAX;
  for (int i = 0; i < kNumGatedTileSizes; ++i) {
    const TileSize& size = kSizes[i];
    // With one tile along the rows memory is the limit, and all multiprocessors should read.
    if (args.m <= kTileRows && size.columns > kSmallColumns) continue;
    const std::int64_t rounds = divided_up(row_units(args, size) * column_tiles(args, size), num_blocks / size.cluster);
    const std::int64_t cost =
        rounds * (2 * size.columns + kFixedColumns) * (size.cluster == 1 ? kAloneCost : kClusterCost);
    if (cost < least) least = cost, best = i;
  }
  return best;
}

}  // namespace

bool serves_linear_gated(const LinearArgs& args) {
  const auto aligned = [](const void* data, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 8 == 0;
  };
  if (args.k % kDepth != 0 || args.k < kLeastGatedK || args.n % 16 != 0 || args.y_type != ElementType::kBf16) {
    return false;
  }
  if (!aligned(args.x, args.x_stride) || !aligned(args.w, args.w_stride) || !aligned(args.y, args.y_stride)) {
    return false;
  }
  if (args.m <= kMaxStreamedRows) return false;
  // The second of two tiles would be half empty: cuBLASLt and then the activation take 80 us for 192 rows in place of
  // 88 (28672 columns of 4096, H200).
  if (args.m > kTileRows && args.m <= kTileRows * 3 / 2) return false;
  int multiprocessors = 0;
  if (num_multiprocessors(multiprocessors) != cudaSuccess) return false;
  return row_units(args, kSizes[0]) * column_tiles(args, kSizes[0]) >= multiprocessors / 2;
}

cudaError_t launch_linear_gated(const LinearArgs& args, Activation activation, cudaStream_t stream) {
  int multiprocessors = 0;
  if (const cudaError_t error = num_multiprocessors(multiprocessors); error != cudaSuccess) return error;
  return launch_linear_gated_with(cheapest(args, multiprocessors), multiprocessors, args, activation, stream);
}

cudaError_t launch_linear_gated_with(int tile_size, int most_blocks, const LinearArgs& args, Activation activation,
                                     cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const TileSize& size = kSizes[tile_size];
  GatedArgs all = {};
  all.linear = args;
  all.activation = activation;
  all.columns = static_cast<std::int32_t>(args.n / 2);
  all.pieces = static_cast<std::int32_t>(args.k / kDepth);
  all.row_units = static_cast<std::int32_t>(row_units(args, size));
  all.column_tiles = static_cast<std::int32_t>(column_tiles(args, size));
  const auto describe = [&](const std::uint16_t* matrix, std::int64_t rows, std::int64_t stride, int box_rows,
                            CUtensorMap& map) {
    return describe_pieces(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, matrix, rows, args.k, stride * 2, box_rows, kDepth, map);
  };
  cudaError_t error = describe(args.x, args.m, args.x_stride, kTileRows, all.x);
  if (error == cudaSuccess) error = describe(args.x, args.m, args.x_stride, kBoxRows, all.x_boxes);
  if (error == cudaSuccess) error = describe(args.w, args.n, args.w_stride, size.columns, all.weights);
  if (error != cudaSuccess) return error;
  const int blocks = size.cluster * std::min(all.row_units * all.column_tiles, most_blocks / size.cluster);
  return launch_overlapped(size.kernel, dim3(static_cast<unsigned>(blocks)), kThreads,
                           static_cast<std::size_t>(size.bytes), stream, all);
}

cudaError_t prepare_linear_gated_kernels() {
  for (const TileSize& size : kSizes) {
    const cudaError_t error =
        cudaFuncSetAttribute(size.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size.bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
