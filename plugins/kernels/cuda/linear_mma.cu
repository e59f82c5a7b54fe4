// Weights are the a operand of the instruction (sixteen columns of y), rows of x are the b operand (eight at a time),
// so that few rows waste little. Tiles of kDepth along K go through kStages buffers in shared memory; the next tiles
// are loaded while one is multiplied.
#include "kernels/cuda/linear_mma.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/mma.cuh"

namespace mortise::cuda {
namespace {

constexpr int kStages = 4;

// A block's warps form a grid: kAcross along the columns of y, kDown along the rows. Each has kPanels times sixteen
// columns and kTiles times eight rows.
template <int kAcross, int kDown, int kPanels, int kTiles, int kItsDepth>
struct Shape {
  static constexpr int kWarpsAcross = kAcross, kNumPanels = kPanels, kNumTiles = kTiles, kDepth = kItsDepth;
  static constexpr int kThreads = kAcross * kDown * 32;
  static constexpr int kColumns = kAcross * kPanels * 16, kRows = kDown * kTiles * 8;
  static constexpr int kPitch = kDepth + 8;  // elements, so that the eight rows of an ldmatrix are in different banks
  static constexpr int kStageElements = (kColumns + kRows) * kPitch;
  static constexpr int kBytes = kStages * kStageElements * static_cast<int>(sizeof(Bf16));
  static_assert(kBytes <= 99 << 10, "what a block has at compute capability 8.6 and 8.9");
};

// Loads rows first .. first + kRows of `from`, columns depth .. depth + kDepth, with zeros outside of the matrix.
template <class S, int kRows, bool kAligned>
__device__ __forceinline__ void load_tile(Bf16* to, const Bf16* from, std::int64_t stride, std::int64_t first,
                                          std::int64_t rows, std::int64_t depth, std::int64_t k) {
  constexpr int kWidth = kAligned ? 8 : 1, kPieces = S::kDepth / kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += S::kThreads) {
    const int row = i / kPieces, column = i % kPieces * kWidth;
    const bool valid = first + row < rows && depth + column < k;
    const Bf16* source = valid ? from + (first + row) * stride + depth + column : from;
    Bf16* const target = to + row * S::kPitch + column;
    if constexpr (kAligned) {
      copy_async(shared_address(target), source, valid ? 16 : 0);
    } else {
      *target = valid ? *source : Bf16{0};
    }
  }
}

// ldmatrix of two matrices: the lanes up to 15 give the addresses.
__device__ __forceinline__ void load_two_matrices(std::uint32_t (&r)[2], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}

// Loads the operands b of kTiles tiles of eight rows, tile_bytes apart.
template <int kTiles>
__device__ __forceinline__ void load_rows(std::uint32_t (&b)[kTiles][2], std::uint32_t from, int tile_bytes) {
#pragma unroll
  for (int i = 0; i + 1 < kTiles; i += 2) {
    std::uint32_t r[4];
    load_matrices(r, from + i * tile_bytes);
    b[i][0] = r[0], b[i][1] = r[1], b[i + 1][0] = r[2], b[i + 1][1] = r[3];
  }
  if constexpr (kTiles % 2 == 1) load_two_matrices(b[kTiles - 1], from + (kTiles - 1) * tile_bytes);
}

template <class S, bool kAligned>
__global__ void __launch_bounds__(S::kThreads) linear_kernel(const LinearArgs args) {
  constexpr int kPanels = S::kNumPanels, kTiles = S::kNumTiles, kDepth = S::kDepth;
  extern __shared__ __align__(16) Bf16 stages[];
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.x) * S::kColumns;
  const std::int64_t m0 = static_cast<std::int64_t>(blockIdx.y) * S::kRows;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int column = warp % S::kWarpsAcross * kPanels * 16, row = warp / S::kWarpsAcross * kTiles * 8;  // the warp's
  const auto load = [&](std::int64_t step) {
    if (step * kDepth < args.k) {
      Bf16* const w = stages + step % kStages * S::kStageElements;
      load_tile<S, S::kColumns, kAligned>(w, args.w, args.w_stride, n0, args.n, step * kDepth, args.k);
      load_tile<S, S::kRows, kAligned>(w + S::kColumns * S::kPitch, args.x, args.x_stride, m0, args.m, step * kDepth,
                                       args.k);
    }
    if constexpr (kAligned) commit_copies();
  };
  // Where the lane's rows begin for ldmatrix. Of w: rows 0-7 and 8-15 at their first eight elements, then at their
  // second eight. Of x: rows 0-7 at both eights, then rows 8-15.
  const std::uint32_t from_w = ((column + lane % 16) * S::kPitch + lane / 16 * 8) * 2;
  const std::uint32_t from_x = ((S::kColumns + row + lane % 8 + lane / 16 * 8) * S::kPitch + lane / 8 % 2 * 8) * 2;
  const std::uint32_t at = shared_address(stages);
  float acc[kPanels][kTiles][4] = {};
  for (int i = 0; i < kStages - 1; ++i) load(i);
  for (std::int64_t step = 0; step * kDepth < args.k; ++step) {
    if constexpr (kAligned) wait_for_copies<kStages - 2>();
    __syncthreads();  // the tile has arrived, and no warp needs the tile that is overwritten next
    load(step + kStages - 1);
    const std::uint32_t stage = at + static_cast<std::uint32_t>(step % kStages) * S::kStageElements * 2;
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      if (step * kDepth + k >= args.k)
        break;  // in every shape as many instructions: zeros would turn a sum of -0 into +0
      std::uint32_t a[kPanels][4], b[kTiles][2];
#pragma unroll
      for (int p = 0; p < kPanels; ++p) load_matrices(a[p], stage + from_w + (p * 16 * S::kPitch + k) * 2);
      load_rows(b, stage + from_x + k * 2, 8 * S::kPitch * 2);
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) mma_m16n8k16(acc[p][i], a[p], b[i]);
      }
    }
  }
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t n = n0 + column + p * 16 + lane / 4 + j / 2 * 8, m = m0 + row + i * 8 + lane % 4 * 2 + j % 2;
        if (n >= args.n || m >= args.m) continue;
        const float y = args.bias == nullptr ? acc[p][i][j] : __fadd_rn(acc[p][i][j], args.bias[n]);
        if (args.y_type == ElementType::kBf16) {
          put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
        } else {
          put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
        }
      }
    }
  }
}

bool aligned(const LinearArgs& args) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.w);
  return addresses % 16 == 0 && args.x_stride % 8 == 0 && args.w_stride % 8 == 0 && args.k % 8 == 0;
}

template <class S>
cudaError_t launch(const LinearArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((args.n + S::kColumns - 1) / S::kColumns),
                  static_cast<unsigned>((args.m + S::kRows - 1) / S::kRows));
  const auto kernel = aligned(args) ? linear_kernel<S, true> : linear_kernel<S, false>;
  kernel<<<grid, S::kThreads, S::kBytes, stream>>>(args);
  return cudaGetLastError();
}

template <class S>
cudaError_t allow_shared_memory() {
  for (const auto kernel : {linear_kernel<S, true>, linear_kernel<S, false>}) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

// For up to 8, 16 and 32 rows, and for more.
using Rows8 = Shape<2, 1, 1, 1, 64>;
using Rows16 = Shape<2, 1, 1, 2, 64>;
using Rows32 = Shape<4, 1, 1, 4, 64>;
using Many = Shape<4, 2, 2, 8, 32>;

}  // namespace

// All tile shapes give the same bits, because each output is the same chain of instructions.
cudaError_t launch_linear_mma(const LinearArgs& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  if (args.m <= 8) return launch<Rows8>(args, stream);
  if (args.m <= 16) return launch<Rows16>(args, stream);
  if (args.m <= 32) return launch<Rows32>(args, stream);
  return launch<Many>(args, stream);
}

cudaError_t prepare_linear_kernels() {
  for (const cudaError_t error : {allow_shared_memory<Rows8>(), allow_shared_memory<Rows16>(),
                                  allow_shared_memory<Rows32>(), allow_shared_memory<Many>()}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
