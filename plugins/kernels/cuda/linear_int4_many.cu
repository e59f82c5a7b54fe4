// Weights are the a operand of the instruction (64 columns of y per warpgroup). They come from registers, where they
// are unpacked. Rows of q are the b operand. A block computes tile after tile. One warpgroup loads chunks of weights
// and q into a ring in shared memory, two multiply. Each of these has two accumulators of integers in turn: while the
// tensor cores add up a group in one, the sums of the group before are multiplied by their scale and added in f32.
//
// No sum is converted to f32. Before the products of a group, a product of two constant matrices sets the accumulator
// to kOffset, so that a sum is never negative. Then its bits as an f32 are the denormal (sum + kOffset) 2^-149. One
// fma, which does not flush denormals, computes
//   (sum + kOffset) 2^-149 * (scale 2^112) - kOffset scale 2^-37 = sum scale 2^-37,
// rounded once: the constant is exact, since kOffset is a power of two. The sums of terms thus are 2^-37 of what they
// shall be, and without rounding or overflow differ in nothing else if the scales are usual (int_weight.hpp): terms are
// multiples of 2^-126.
//
// Two blocks are a cluster. They compute neighbouring tiles of the same rows at the same time, and each loads half of q
// for both: alone, the L2 would be the limit.
#include "kernels/cuda/linear_int4_many.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/int4_many_ring.cuh"
#include "kernels/cuda/int_loads.cuh"
#include "kernels/cuda/int_rows.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/row_pieces.cuh"
#include "kernels/cuda/transposed.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda {
namespace {

constexpr std::uint32_t kOfOffset = 0x80808080u;  // -128 in all bytes of both matrices: 32 products of 2^14
constexpr float kOffset = 0x1p19f, kShrunk = 0x1p-37f, kGrown = 0x1p37f;
static_assert(kIntChunk * 15 * 127 < 1 << 19, "a sum of a group must be below the offset");

constexpr std::int64_t kMinRows = 33;  // with fewer, linear_int4_widened is faster

// sum * scale + offset with one rounding, where `sum` may be a denormal.
__device__ __forceinline__ float fma_of_denormal(float sum, float scale, float offset) {
  float term;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(term) : "f"(sum), "f"(scale), "f"(offset));
  return term;
}

// A warpgroup's part of a tile of y: 64 columns times kTileRows rows. One per thread; methods are called by the whole
// warpgroup. Invariant: place_ is the place of the next chunk to take.
template <int kSets, int kTileRows>
class Multiplier {
  using S = ManyShape<kSets, kTileRows>;
  static constexpr int kEights = kTileRows / 8;
  // A unit is the part of a set that is unpacked and multiplied together.
  static constexpr int kSteps = 2, kUnits = kIntSteps / kSets / kSteps;  // in a unit; in a set

 public:
  __device__ Multiplier(const ManyArgs& args, const ManyPlace<S>& place, int warp, int rank)
      : args_(args),
        place_(place),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32),
        rank_(rank),
        of_offset_(matrix(place.memory + S::kOfOffset, 0, 0)) {}

  __device__ __forceinline__ void compute(int pair) {
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) acc_[i][j] = 0.0f;
    }
    take_chunk();
    start_set<0, 0>();
    if constexpr (kUnits == 2) start_second<0>();
    int chunk = 1;
    if constexpr (kSets == 1) {
#pragma unroll 1
      for (; chunk + 1 < args_.chunks; chunk += 2) {
        start_and_end_before<0, 1>();
        start_and_end_before<0, 0>();
      }
      if (chunk < args_.chunks) {
        start_and_end_before<0, 1>();
        end_last<1>();
      } else {
        end_last<0>();
      }
    } else {
#pragma unroll 1
      for (; chunk < args_.chunks; ++chunk) {
        add_from<1>();
        start_and_end_before<0, 0>();
      }
      // Always true. Without the branch ptxas lets no product run while sums are added (its message C7514).
      if (chunk <= args_.chunks) {
        add_from<1>();
        end_last<1>();
      } else {
        end_last<0>();
      }
    }
    const TilePosition tile = position_of(args_, pair, rank_);
    if (tile.exists) write(tile.row * kTileRows, (tile.column * kPanels + warp_) * kIntPanel);
  }

 private:
  // Starts the products of set kSet, in accumulator kAccumulator, and adds the sums of the set before, which are in the
  // other one.
  template <int kSet, int kAccumulator>
  __device__ __forceinline__ void start_and_end_before() {
    const std::uint32_t free = free_;
    if constexpr (kSet == 0) take_chunk();
    start_set<kSet, kAccumulator>();
    wait_products_but_last();
    end<1 - kAccumulator>();
    if constexpr (kSet == 0) release(free);
    if constexpr (kUnits == 2) start_second<kAccumulator>();
  }
  // The same for the sets of a chunk from kSet on.
  template <int kSet>
  __device__ __forceinline__ void add_from() {
    if constexpr (kSet < kSets) {
      start_and_end_before<kSet, kSet % 2>();
      add_from<kSet + 1>();
    }
  }
  template <int kAccumulator>
  __device__ __forceinline__ void end_last() {
    wait_products();
    end<kAccumulator>();
    release(free_);
  }

  __device__ __forceinline__ void take_chunk() {
    wait_barrier(place_.full(), place_.phase);
    rows_ = matrix(place_.rows(), 0, 1024);
    weights_ = place_.panel(warp_);
    free_ = place_.free();
    place_.advance();
  }
  template <int kSet, int kAccumulator>
  __device__ __forceinline__ void start_set() {
    const std::uint32_t set = weights_ + 1024 + kSet * kIntSetBytes, zeros = set + 4 * kIntPanel + lane_ / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float scale = load_scale(set + lane_ / 4 * 4 + 32 * half);
      scale_[kAccumulator][half] = __fmul_rn(scale, 0x1p112f);
      offset_[kAccumulator][half] = __fmul_rn(scale, -kOffset * kShrunk);
      less_zero_[half] = 0x80808080u - load_zero(zeros + 8 * half) * 0x01010101u;
    }
    start_unit<kSet * kUnits, kAccumulator, kUnits == 2 ? 0 : kAccumulator>();
  }
  // Starts the second unit of a set of 128 columns.
  template <int kAccumulator>
  __device__ __forceinline__ void start_second() {
    start_unit<1, kAccumulator, 1>();
    wait_products_but_last();
  }
  // Starts unit kUnit of the chunk. The products of the unit before may still run; they have their own fragments.
  template <int kUnit, int kAccumulator, int kFragments>
  __device__ __forceinline__ void start_unit() {
    std::uint32_t(&a)[kSteps][4] = a_[kFragments];
    const uint4 vector = load_sixteen(weights_ + kUnit * kSteps / 2 * 512 + lane_ * 16);
    const std::uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t values = ((kUnit * kSteps + step) % 2 == 0 ? words[j] : words[j] >> 4) & 0x0f0f0f0fu;
        a[step][j] = (values + less_zero_[j % 2]) ^ 0x80808080u;  // no byte carries to the next
      }
    }
    begin_products();
    if constexpr (kUnit % kUnits == 0) row_product(dot_[kAccumulator], of_offset_, of_offset_, false);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      product(dot_[kAccumulator], a[step], moved(rows_, (kUnit * kSteps + step) * kIntStep), true);
    }
    commit_products();
  }
  template <int kAccumulator>
  __device__ __forceinline__ void end() {
    hold(dot_[kAccumulator]);
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float sum = __int_as_float(dot_[kAccumulator][i][j]);
        acc_[i][j] =
            __fadd_rn(acc_[i][j], fma_of_denormal(sum, scale_[kAccumulator][j / 2], offset_[kAccumulator][j / 2]));
      }
    }
    hold(acc_);  // so that the compiler does not add after the next products have started
  }
  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    __syncwarp();  // all lanes have read their scales
    if (lane_ < kCluster) arrive_in_cluster(barrier, lane_);
  }

  // Writes the warp's sixteen columns.
  __device__ __forceinline__ void write(int row, int column) {
    const LinearIntArgs& linear = args_.linear;
    bool ordinary = scale_rows(row + lane_ % 4 * 2);
    if (linear.bias != nullptr) ordinary &= add_bias(column + lane_ / 4);
    if (args_.whole_vectors && column + kIntPanel <= linear.n) {
      write_transposed(row, column, __all_sync(0xffffffffu, ordinary));
    } else {
      write_one_by_one(row + lane_ % 4 * 2, column + lane_ / 4);
    }
  }
  // Returns false if a result may be NaN.
  __device__ __forceinline__ bool scale_rows(int row) {
    float2 scales[kEights];
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const std::int64_t m = row + 8 * i;
      scales[i] = m < args_.linear.m ? *reinterpret_cast<const float2*>(args_.row_scales + m) : float2{0, 0};
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kEights; ++i) sum = __fadd_rn(sum, __fadd_rn(scales[i].x, scales[i].y));
    const bool ordinary = sum < 0x1p90f;  // none is NaN, and none overflows when multiplied by kGrown
    if (ordinary) {
#pragma unroll
      for (int i = 0; i < kEights; ++i) scales[i] = {__fmul_rn(scales[i].x, kGrown), __fmul_rn(scales[i].y, kGrown)};
    } else {
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) acc_[i][j] = __fmul_rn(acc_[i][j], kGrown);
      }
    }
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) acc_[i][j] = __fmul_rn(acc_[i][j], j % 2 == 0 ? scales[i].x : scales[i].y);
    }
    return ordinary;
  }
  // Returns false if a result may be NaN although it was not before.
  __device__ __forceinline__ bool add_bias(int column) {
    float bias[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bias[half] = column + 8 * half < args_.linear.n ? args_.linear.bias[column + 8 * half] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) acc_[i][j] = __fadd_rn(acc_[i][j], bias[j / 2]);
    }
    return fabsf(bias[0]) < __uint_as_float(0x7f800000u) && fabsf(bias[1]) < __uint_as_float(0x7f800000u);
  }
  __device__ __forceinline__ void write_transposed(int row, int column, bool ordinary) const {
    const LinearIntArgs& linear = args_.linear;
    const std::uint32_t out = place_.memory + S::kOut + warp_ * S::kOutBytes;
    __syncwarp();  // all lanes have read the tile before
#pragma unroll
    for (int i = 0; i < kEights; i += 2) {
      std::uint32_t pairs[4] = {two_bf16(acc_[i][0], acc_[i][1]), two_bf16(acc_[i][2], acc_[i][3]),
                                two_bf16(acc_[i + 1][0], acc_[i + 1][1]), two_bf16(acc_[i + 1][2], acc_[i + 1][3])};
      if (!ordinary) {
#pragma unroll
        for (std::uint32_t& pair : pairs) pair = with_canonical_nan(pair);
      }
      store_transposed(out + (i * 8 + lane_ / 16 * 8 + lane_ % 8) * 32 + lane_ / 8 % 2 * 16, pairs);
    }
    __syncwarp();
    uint4 vectors[kEights / 2];
#pragma unroll
    for (int i = 0; i < kEights / 2; ++i) vectors[i] = load_sixteen(out + i * 512 + lane_ * 16);
    Bf16* const y = static_cast<Bf16*>(linear.y) + column + lane_ % 2 * 8;
#pragma unroll
    for (int i = 0; i < kEights / 2; ++i) {
      const std::int64_t m = row + 16 * i + lane_ / 2;
      if (m < linear.m) *reinterpret_cast<uint4*>(y + m * linear.y_stride) = vectors[i];
    }
  }
  __device__ __forceinline__ void write_one_by_one(int row, int column) const {
    const LinearIntArgs& linear = args_.linear;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t m = row + 8 * i + j % 2, n = column + j / 2 * 8;
        if (n >= linear.n || m >= linear.m) continue;
        if (linear.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(linear.y)[m * linear.y_stride + n], acc_[i][j]);
        } else {
          put(static_cast<float*>(linear.y)[m * linear.y_stride + n], acc_[i][j]);
        }
      }
    }
  }

  const ManyArgs& args_;
  ManyPlace<S> place_;
  const int warp_, lane_, rank_;
  const std::uint64_t of_offset_;  // describes a matrix of kOfOffset
  // The chunk whose products were started last.
  std::uint64_t rows_ = 0;
  std::uint32_t weights_ = 0, free_ = 0;
  std::uint32_t a_[2][kSteps][4];    // weights of two units
  std::uint32_t less_zero_[2];       // of the lane's two columns: 128 - zero point in all bytes
  std::int32_t dot_[2][kEights][4];  // sums of a group
  // Of the lane's two columns: scale 2^112, and -kOffset kShrunk scale.
  float scale_[2][2], offset_[2][2];
  float acc_[kEights][4];
};

template <int kSets, int kTileRows>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    int4_many_kernel(const __grid_constant__ ManyArgs args) {
  using S = ManyShape<kSets, kTileRows>;
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  const ManyPlace<S> place = {shared_address(memory)};
  const int rank = static_cast<int>(rank_in_cluster());
  make_barriers(place.full(), S::kPlaces, 1);
  make_barriers(place.free(), S::kPlaces, kCluster * kUsers);
  publish_barriers();
  for (int i = static_cast<int>(threadIdx.x); i < kOffsetBytes / 4; i += kThreads) {
    reinterpret_cast<std::uint32_t*>(memory + S::kOfOffset)[i] = kOfOffset;
  }
  publish_writes();
  wait_for_cluster();
  // __shfl_sync tells the compiler that it is uniform.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int cluster = static_cast<int>(blockIdx.x) / kCluster, clusters = static_cast<int>(gridDim.x) / kCluster;
  if (warp >= kUsers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    wait_for_kernel_before();
    see_writes();
    feed<S>(args, place, kTileRows, warp - kUsers, rank);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
    wait_for_kernel_before();
    Multiplier<kSets, kTileRows> multiplier(args, place, warp, rank);
#pragma unroll 1
    for (int pair = cluster; pair < args.pairs; pair += clusters) {
      multiplier.compute(pair);
    }
  }
  wait_for_cluster();  // the other block may still write to this block's shared memory
}

using Kernel = void (*)(ManyArgs);
struct Choice {
  Kernel kernel;
  int tile_rows, bytes;
};
template <int kSets, int kTileRows>
Choice choice() {
  return {int4_many_kernel<kSets, kTileRows>, kTileRows, ManyShape<kSets, kTileRows>::kBytes};
}
// The available tile sizes.
constexpr int kChoices = 3;
Choice choice_of(int sets, int size) {
  switch (size) {
    case 0:
      return sets == 1 ? choice<1, 32>() : choice<2, 32>();
    case 1:
      return sets == 1 ? choice<1, 64>() : choice<2, 64>();
    default:
      return sets == 1 ? choice<1, 128>() : choice<2, 128>();
  }
}

// The pairs of tiles of so many rows.
std::int64_t pairs_of(const LinearIntArgs& args, std::int64_t tile_rows) {
  return (args.n + kCluster * kColumns - 1) / (kCluster * kColumns) * ((args.m + tile_rows - 1) / tile_rows);
}

// The tile size with which a block takes the least time. A chunk takes as long as it would take for so many more rows
// (H100, groups of 64). The choice changes no bit.
Choice cheapest(const LinearIntArgs& args, int sets, int num_blocks) {
  constexpr std::int64_t kRowsOfChunk = 42;
  Choice best = {};
  std::int64_t least = INT64_MAX;
  for (int size = 0; size < kChoices; ++size) {
    const Choice one = choice_of(sets, size);
    const std::int64_t clusters = num_blocks / kCluster, pairs = pairs_of(args, one.tile_rows);
    const std::int64_t cost = (pairs + clusters - 1) / clusters * (kRowsOfChunk + one.tile_rows);
    if (cost <= least) least = cost, best = one;
  }
  return best;
}

}  // namespace

bool is_many_int4(const LinearIntArgs& args) {
  const IntLayout layout(args.format);
  return args.format.bits == 4 && args.m >= kMinRows && layout.column_group >= 64 &&
         args.format.group_size == layout.column_group && args.usual_scales;
}

std::uint64_t many_int4_workspace_bytes(const LinearIntArgs& args) {
  return int_rows_bytes(args, /*sums=*/false);
}

cudaError_t launch_linear_int4_many(const LinearIntArgs& args, void* workspace, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const IntLayout layout(args.format);
  const IntRows rows = int_rows_in(workspace, args, /*sums=*/false);
  if (const cudaError_t error = launch_quantize_rows(args, rows, stream); error != cudaSuccess) return error;
  int most = 0;
  if (const cudaError_t error = num_multiprocessors(most); error != cudaSuccess) return error;
  const Choice chosen = cheapest(args, kIntChunk / layout.column_group, most);
  ManyArgs all = {};
  if (const cudaError_t error = describe_pieces(CU_TENSOR_MAP_DATA_TYPE_UINT8, rows.q, args.m, rows.row_bytes,
                                                rows.row_bytes, chosen.tile_rows / kCluster, kIntChunk, all.q);
      error != cudaSuccess) {
    return error;
  }
  const std::int64_t first_panel = args.first_column / kIntPanel;
  if (const cudaError_t error = describe_panels(args.w + first_panel * layout.panel_bytes, layout.panels - first_panel,
                                                layout.panel_bytes, layout.chunk_bytes, all.weights);
      error != cudaSuccess) {
    return error;
  }
  all.linear = args;
  all.row_scales = rows.scales;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.row_tiles = static_cast<std::int32_t>((args.m + chosen.tile_rows - 1) / chosen.tile_rows);
  all.column_tiles = static_cast<std::int32_t>((args.n + kColumns - 1) / kColumns);
  all.pairs = static_cast<std::int32_t>(pairs_of(args, chosen.tile_rows));
  all.whole_vectors =
      args.y_type == ElementType::kBf16 && args.y_stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(args.y) % 16 == 0;
  const int blocks = kCluster * std::min(all.pairs, most / kCluster);
  return launch_overlapped(chosen.kernel, dim3(static_cast<unsigned>(blocks)), kThreads,
                           static_cast<std::size_t>(chosen.bytes), stream, all);
}

cudaError_t prepare_int4_many_kernels() {
  for (const int sets : {1, 2}) {
    for (int size = 0; size < kChoices; ++size) {
      const Choice one = choice_of(sets, size);
      const cudaError_t error =
          cudaFuncSetAttribute(one.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, one.bytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
