// Rows of x are the a operand of the instruction, weights the b operand (a panel of eight columns of y). The packed
// order of the weights is that of the operand, so they go from global memory to registers, half a chunk ahead. The
// warps of a block share rows of x in shared memory, half a chunk in each of kStages buffers.
#include "kernels/cuda/linear_fp8_mma.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/mma.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kHalf = kFp8Chunk / 2;    // columns of a half chunk
constexpr int kStages = 4;              // half chunks of x in shared memory
constexpr int kPitch = kHalf * 2 + 16;  // bytes, so that the eight rows of an ldmatrix are in different banks
constexpr int kTileRows = 16;

struct MmaArgs {
  LinearFp8Args linear;
  std::int64_t panel_bytes;
  std::int32_t chunks;
  const float* scales;  // with one scale a row
};

// kTiles: tiles of rows of a block. kPanels: panels of a warp.
template <int kTiles, int kPanels>
struct Shape {
  static constexpr int kRows = kTiles * kTileRows, kColumns = kWarps * kPanels * kFp8Panel;
  static constexpr int kStageBytes = kRows * kPitch, kBytes = kStages * kStageBytes;
  static_assert(kBytes <= 48 << 10, "what every launch may ask for");
  static_assert(kColumns <= kFp8Columns, "panels behind the last that are read exist");
};

// Requests half chunk `half` of the rows from first_row on, with zeros outside of x.
template <int kRows>
__device__ __forceinline__ void request_rows(const LinearFp8Args& args, std::int64_t first_row, int half,
                                             std::uint32_t to) {
  constexpr int kUnits = kHalf / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits; i += kThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    const std::int64_t column = static_cast<std::int64_t>(half) * kHalf + unit * 8, left = args.format.k - column;
    const bool exists = first_row + row < args.m && left > 0;
    copy_async(to + row * kPitch + unit * 16, exists ? args.x + (first_row + row) * args.x_stride + column : args.x,
               exists ? static_cast<int>(left < 8 ? left : 8) * 2 : 0);
  }
}

template <bool kGrouped, int kTiles, int kPanels>
__global__ void __launch_bounds__(kThreads) fp8_mma_kernel(const __grid_constant__ MmaArgs args) {
  using S = Shape<kTiles, kPanels>;
  constexpr int kChunkBytes = fp8_chunk_bytes(kGrouped);
  extern __shared__ __align__(16) char memory[];
  const LinearFp8Args& linear = args.linear;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * S::kRows;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * S::kColumns + warp * kPanels * kFp8Panel;
  const std::int64_t panel = (linear.first_column + first_column) / kFp8Panel;
  const std::byte* const from = linear.w + panel * args.panel_bytes;
  const std::uint32_t at = shared_address(memory);
  const std::uint32_t x = at + lane % 16 * kPitch + lane / 16 * 16;
  const int halves = 2 * args.chunks;
  const auto request = [&](int half) {
    if (half < halves) request_rows<S::kRows>(linear, first_row, half, at + half % kStages * S::kStageBytes);
    commit_copies();
  };
  const auto load = [&](int half, uint4(&w)[kPanels]) {
    const std::byte* const chunk = from + static_cast<std::int64_t>(half / 2) * kChunkBytes + half % 2 * 512;
#pragma unroll
    for (int i = 0; i < kPanels; ++i) w[i] = __ldg(reinterpret_cast<const uint4*>(chunk + i * args.panel_bytes) + lane);
  };
  float d[kTiles][kPanels][4] = {}, acc[kTiles][kPanels][4] = {};
  const auto end_group = [&](int i, const float* scales) {  // of panel i
    const float2 scale = *reinterpret_cast<const float2*>(scales + lane % 4 * 2);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        acc[tile][i][j] = __fmaf_rn(d[tile][i][j], j % 2 == 0 ? scale.x : scale.y, acc[tile][i][j]);
        d[tile][i][j] = 0;
      }
    }
  };
  uint4 w[kPanels], next[kPanels];
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
    for (int step = 0; step < kHalf / kFp8Step; ++step) {
      std::uint32_t a[kTiles][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        load_matrices(a[tile], rows + tile * kTileRows * kPitch + step * kFp8Step * 2);
      }
#pragma unroll
      for (int i = 0; i < kPanels; ++i) {
        const std::uint32_t words[4] = {w[i].x, w[i].y, w[i].z, w[i].w};
        std::uint32_t b[2];
        widen_fp8(words[step], b[0], b[1]);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) mma_m16n8k16(d[tile][i], a[tile], b);
      }
    }
    if (kGrouped && half % 2 == 1) {
#pragma unroll
      for (int i = 0; i < kPanels; ++i) {
        end_group(i,
                  reinterpret_cast<const float*>(from + i * args.panel_bytes +
                                                 static_cast<std::int64_t>(half / 2) * kChunkBytes + kFp8ValueBytes));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPanels; ++i) {
    if constexpr (!kGrouped) end_group(i, args.scales + (panel + i) * kFp8Panel);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t m = first_row + tile * kTileRows + lane / 4 + j / 2 * 8;
        const std::int64_t n = first_column + i * kFp8Panel + lane % 4 * 2 + j % 2;
        if (n >= linear.n || m >= linear.m) continue;
        const float y = linear.bias == nullptr ? acc[tile][i][j] : __fadd_rn(acc[tile][i][j], linear.bias[n]);
        if (linear.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(linear.y)[m * linear.y_stride + n], y);
        } else {
          put(static_cast<float*>(linear.y)[m * linear.y_stride + n], y);
        }
      }
    }
  }
}

template <bool kGrouped, int kTiles, int kPanels>
cudaError_t launch(const MmaArgs& args, cudaStream_t stream) {
  using S = Shape<kTiles, kPanels>;
  const dim3 grid(static_cast<unsigned>((args.linear.n + S::kColumns - 1) / S::kColumns),
                  static_cast<unsigned>((args.linear.m + S::kRows - 1) / S::kRows));
  fp8_mma_kernel<kGrouped, kTiles, kPanels><<<grid, kThreads, S::kBytes, stream>>>(args);
  return cudaGetLastError();
}

template <bool kGrouped>
cudaError_t launch_for_rows(const MmaArgs& args, cudaStream_t stream) {
  return args.linear.m <= kTileRows ? launch<kGrouped, 1, 1>(args, stream) : launch<kGrouped, 4, 4>(args, stream);
}

}  // namespace

cudaError_t launch_linear_fp8_mma(const LinearFp8Args& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const Fp8Layout layout(args.format);
  const MmaArgs all = {args, layout.panel_bytes, static_cast<std::int32_t>(layout.chunks),
                       reinterpret_cast<const float*>(args.w + layout.scales)};
  return args.format.grouped ? launch_for_rows<true>(all, stream) : launch_for_rows<false>(all, stream);
}

}  // namespace mortise::cuda
