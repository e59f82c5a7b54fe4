// As linear_fp8_mma.cu, with one chain of instructions over all of K.
#include "kernels/cuda/linear_mxfp4_mma.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/mxfp4_rows.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kHalf = kMxfp4Chunk / 2;  // columns of a half chunk: two groups
constexpr int kStages = 4;              // half chunks of x in shared memory
constexpr int kPitch = kHalf * 2 + 16;  // bytes, so that the eight rows of an ldmatrix are in different banks
constexpr int kTileRows = 16;

struct MmaArgs {
  LinearMxfp4Args linear;
  std::int64_t panel_bytes;
  std::int32_t steps;  // of sixteen columns: only as many as K has, since zeros would turn a sum of -0 into +0
};

// kTiles: tiles of rows of a block. kPanels: panels of a warp.
template <int kTiles, int kPanels>
struct Shape {
  static constexpr int kRows = kTiles * kTileRows, kColumns = kWarps * kPanels * kMxfp4Panel;
  static constexpr int kStageBytes = kRows * kPitch, kBytes = kStages * kStageBytes;
  static_assert(kBytes <= 48 << 10, "what every launch may ask for");
  static_assert(kColumns <= kMxfp4TileColumns, "panels behind the last that are read exist");
};

// Requests half chunk `half` of the rows from first_row on, with zeros outside of x.
template <int kRows>
__device__ __forceinline__ void request_rows(const LinearMxfp4Args& args, std::int64_t first_row, int half,
                                             std::uint32_t to) {
  constexpr int kUnits = kHalf / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits; i += kThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    const std::int64_t column = static_cast<std::int64_t>(half) * kHalf + unit * 8, left = args.k - column;
    const bool exists = first_row + row < args.m && left > 0;
    copy_async(to + row * kPitch + unit * 16, exists ? args.x + (first_row + row) * args.x_stride + column : args.x,
               exists ? static_cast<int>(left < 8 ? left : 8) * 2 : 0);
  }
}

// Two groups of a panel.
struct HalfChunk {
  uint2 words;
  std::uint32_t exponents;

  // `chunk`: of the panel. `half`: of the chunk.
  __device__ __forceinline__ void load(const std::byte* chunk, int half) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    words = __ldg(reinterpret_cast<const uint2*>(chunk) + lane * 2 + half);
    exponents = __ldg(reinterpret_cast<const std::uint32_t*>(chunk + kMxfp4ValueBytes) + lane / 4) >> 16 * half;
  }
};

template <int kTiles, int kPanels>
__global__ void __launch_bounds__(kThreads) mxfp4_mma_kernel(const __grid_constant__ MmaArgs args) {
  using S = Shape<kTiles, kPanels>;
  extern __shared__ __align__(16) char memory[];
  const LinearMxfp4Args& linear = args.linear;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * S::kRows;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * S::kColumns + warp * kPanels * kMxfp4Panel;
  const std::byte* const from = linear.w + (linear.first_column + first_column) / kMxfp4Panel * args.panel_bytes;
  const std::uint32_t at = shared_address(memory);
  const std::uint32_t x = at + lane % 16 * kPitch + lane / 16 * 16;
  constexpr int kSteps = kHalf / kMxfp4Step;
  const int halves = (args.steps + kSteps - 1) / kSteps;
  const auto request = [&](int half) {
    if (half < halves) request_rows<S::kRows>(linear, first_row, half, at + half % kStages * S::kStageBytes);
    commit_copies();
  };
  const auto load = [&](int half, HalfChunk(&w)[kPanels]) {
    const std::byte* const chunk = from + static_cast<std::int64_t>(half / 2) * kMxfp4ChunkBytes;
#pragma unroll
    for (int i = 0; i < kPanels; ++i) w[i].load(chunk + i * args.panel_bytes, half % 2);
  };
  float d[kTiles][kPanels][4] = {};
  HalfChunk w[kPanels], next[kPanels];
  load(0, next);
  for (int i = 0; i < kStages - 1; ++i) request(i);
#pragma unroll 1
  for (int half = 0; half < halves; ++half) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // the rows have arrived, and no warp needs those that are overwritten next
    request(half + kStages - 1);
#pragma unroll
    for (int i = 0; i < kPanels; ++i) w[i] = next[i];
    if (half + 1 < halves) load(half + 1, next);
    const std::uint32_t rows = x + half % kStages * S::kStageBytes;
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      std::uint32_t b[kPanels][2][2];
#pragma unroll
      for (int i = 0; i < kPanels; ++i) {
        std::uint32_t pairs[4];
        widen_mxfp4<false>(group == 0 ? w[i].words.x : w[i].words.y, factors_of<false>(w[i].exponents, group), pairs);
        b[i][0][0] = pairs[0], b[i][0][1] = pairs[1], b[i][1][0] = pairs[2], b[i][1][1] = pairs[3];
      }
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        if (half * kSteps + group * 2 + step >= args.steps) break;
        std::uint32_t a[kTiles][4];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          load_matrices(a[tile], rows + tile * kTileRows * kPitch + (group * 2 + step) * kMxfp4Step * 2);
        }
#pragma unroll
        for (int i = 0; i < kPanels; ++i) {
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) mma_m16n8k16(d[tile][i], a[tile], b[i][step]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPanels; ++i) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t m = first_row + tile * kTileRows + lane / 4 + j / 2 * 8;
        const std::int64_t n = first_column + i * kMxfp4Panel + lane % 4 * 2 + j % 2;
        if (n >= linear.n || m >= linear.m) continue;
        const float y = linear.bias == nullptr ? d[tile][i][j] : __fadd_rn(d[tile][i][j], linear.bias[n]);
        if (linear.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(linear.y)[m * linear.y_stride + n], y);
        } else {
          put(static_cast<float*>(linear.y)[m * linear.y_stride + n], y);
        }
      }
    }
  }
}

template <int kTiles, int kPanels>
cudaError_t launch(const MmaArgs& args, cudaStream_t stream) {
  using S = Shape<kTiles, kPanels>;
  const dim3 grid(static_cast<unsigned>((args.linear.n + S::kColumns - 1) / S::kColumns),
                  static_cast<unsigned>((args.linear.m + S::kRows - 1) / S::kRows));
  mxfp4_mma_kernel<kTiles, kPanels><<<grid, kThreads, S::kBytes, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_linear_mxfp4_mma(const LinearMxfp4Args& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const Mxfp4Layout layout(args.n, args.k);
  const MmaArgs all = {args, layout.panel_bytes, static_cast<std::int32_t>((args.k + kMxfp4Step - 1) / kMxfp4Step)};
  return args.m <= kTileRows ? launch<1, 1>(all, stream) : launch<4, 4>(all, stream);
}

}  // namespace mortise::cuda
