// Weights are the a operand of the instruction (sixteen columns of y per warp), rows of x are the b operand (eight at a
// time), so that few rows waste little. Tiles of kDepth along K go through kStages buffers in shared memory; the next
// tiles are loaded while one is multiplied.
#include "kernels/cuda/linear_mma.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/mma.cuh"

namespace mortise::cuda {
namespace {

constexpr int kDepth = 64, kStages = 4;
constexpr int kPitch = kDepth + 8;  // 144 bytes, so that the eight rows of a fragment are in different banks

__device__ __forceinline__ void copy_async(Bf16* to, const Bf16* from, bool valid) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;  // the other bytes become zero
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::);
}
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
}

// Loads rows first .. first + kRows of `from`, columns depth .. depth + kDepth, with zeros outside of the matrix.
template <int kThreads, int kRows, bool kAligned>
__device__ __forceinline__ void load_tile(Bf16* to, const Bf16* from, std::int64_t stride, std::int64_t first,
                                          std::int64_t rows, std::int64_t depth, std::int64_t k) {
  constexpr int kWidth = kAligned ? 8 : 1, kPieces = kDepth / kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kThreads) {
    const int row = i / kPieces, column = i % kPieces * kWidth;
    const bool valid = first + row < rows && depth + column < k;
    const Bf16* source = valid ? from + (first + row) * stride + depth + column : from;
    Bf16* const target = to + row * kPitch + column;
    if constexpr (kAligned) {
      copy_async(target, source, valid);
    } else {
      *target = valid ? *source : Bf16{0};
    }
  }
}

__device__ __forceinline__ std::uint32_t pair_at(const Bf16* tile, int row, int column) {
  return *reinterpret_cast<const std::uint32_t*>(tile + row * kPitch + column);
}

template <int kWarps, int kTiles>
struct Shape {
  static constexpr int kThreads = kWarps * 32, kColumns = kWarps * 16, kRows = kTiles * 8;
  static constexpr int kStageElements = (kColumns + kRows) * kPitch;
  static constexpr int kBytes = kStages * kStageElements * static_cast<int>(sizeof(Bf16));
};

template <int kWarps, int kTiles, bool kAligned>
__global__ void __launch_bounds__(kWarps * 32) linear_kernel(const LinearArgs args) {
  using S = Shape<kWarps, kTiles>;
  extern __shared__ __align__(16) Bf16 stages[];
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.x) * S::kColumns;
  const std::int64_t m0 = static_cast<std::int64_t>(blockIdx.y) * S::kRows;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4 * 2;
  const auto load = [&](std::int64_t step) {
    if (step * kDepth < args.k) {
      Bf16* const w = stages + step % kStages * S::kStageElements;
      load_tile<S::kThreads, S::kColumns, kAligned>(w, args.w, args.w_stride, n0, args.n, step * kDepth, args.k);
      load_tile<S::kThreads, S::kRows, kAligned>(w + S::kColumns * kPitch, args.x, args.x_stride, m0, args.m,
                                                 step * kDepth, args.k);
    }
    if constexpr (kAligned) commit_copies();
  };
  float acc[kTiles][4] = {};
  for (int i = 0; i < kStages - 1; ++i) load(i);
  for (std::int64_t step = 0; step * kDepth < args.k; ++step) {
    if constexpr (kAligned) wait_for_copies<kStages - 2>();
    __syncthreads();  // the tile has arrived, and no warp needs the tile that is overwritten next
    load(step + kStages - 1);
    const Bf16* const w = stages + step % kStages * S::kStageElements + warp * 16 * kPitch;
    const Bf16* const x = stages + step % kStages * S::kStageElements + S::kColumns * kPitch;
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      const std::uint32_t a[4] = {pair_at(w, g, k + t), pair_at(w, g + 8, k + t), pair_at(w, g, k + t + 8),
                                  pair_at(w, g + 8, k + t + 8)};
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const std::uint32_t b[2] = {pair_at(x, i * 8 + g, k + t), pair_at(x, i * 8 + g, k + t + 8)};
        mma_m16n8k16(acc[i], a, b);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t n = n0 + warp * 16 + g + (j >= 2 ? 8 : 0), m = m0 + i * 8 + t + j % 2;
      if (n >= args.n || m >= args.m) continue;
      const float y = args.bias == nullptr ? acc[i][j] : __fadd_rn(acc[i][j], args.bias[n]);
      if (args.y_type == ElementType::kBf16) {
        put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
      } else {
        put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
      }
    }
  }
}

bool aligned(const LinearArgs& args) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.w);
  return addresses % 16 == 0 && args.x_stride % 8 == 0 && args.w_stride % 8 == 0 && args.k % 8 == 0;
}

template <int kWarps, int kTiles>
cudaError_t launch(const LinearArgs& args, cudaStream_t stream) {
  using S = Shape<kWarps, kTiles>;
  const dim3 grid(static_cast<unsigned>((args.n + S::kColumns - 1) / S::kColumns),
                  static_cast<unsigned>((args.m + S::kRows - 1) / S::kRows));
  const auto kernel = aligned(args) ? linear_kernel<kWarps, kTiles, true> : linear_kernel<kWarps, kTiles, false>;
  kernel<<<grid, S::kThreads, S::kBytes, stream>>>(args);
  return cudaGetLastError();
}

template <int kWarps, int kTiles>
cudaError_t allow_shared_memory() {
  for (const auto kernel : {linear_kernel<kWarps, kTiles, true>, linear_kernel<kWarps, kTiles, false>}) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<kWarps, kTiles>::kBytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

// All tile shapes give the same bits, because each output is the same chain of instructions.
cudaError_t launch_linear_mma(const LinearArgs& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  if (args.m <= 8) return launch<2, 1>(args, stream);
  if (args.m <= 16) return launch<2, 2>(args, stream);
  if (args.m <= 32) return launch<4, 4>(args, stream);
  return launch<8, 8>(args, stream);
}

cudaError_t prepare_linear_kernels() {
  for (const cudaError_t error : {allow_shared_memory<2, 1>(), allow_shared_memory<2, 2>(), allow_shared_memory<4, 4>(),
                                  allow_shared_memory<8, 8>()}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace mortise::cuda
