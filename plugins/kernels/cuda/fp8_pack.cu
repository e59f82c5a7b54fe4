#include "kernels/cuda/fp8_pack.hpp"

#include <cuda_fp16.h>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/fp8_rows.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr std::uint32_t kInfinity = 0x7f800000u;

__device__ __forceinline__ float wide(Bf16 x) {
  return from_bf16(x);
}
__device__ __forceinline__ float wide(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float wide(float x) {
  return x;
}

// One block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const T* rows, std::int64_t first_row, std::int64_t k, PlainFp8Weight to) {
  __shared__ std::uint32_t of_warp[kWarps];
  const T* const from = rows + static_cast<std::int64_t>(blockIdx.x) * k;
  std::uint32_t most = 0;
  for (std::int64_t i = threadIdx.x; i < k; i += kThreads)
    most = max(most, __float_as_uint(wide(from[i])) & 0x7fffffffu);
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  for (const std::uint32_t other : of_warp) most = max(most, other);
  constexpr float kLargest = 448, kSmallest = 0x1p-117f;
  const float largest = __uint_as_float(most);
  const bool usual = most < kInfinity && largest >= kSmallest;
  const std::int64_t row = first_row + blockIdx.x;
  if (threadIdx.x == 0) {
    to.scales[row] = usual ? __fdiv_rn(largest, kLargest) : most < kInfinity ? 0.0f : __uint_as_float(0x7fc00000u);
  }
  const float inverse = usual ? __fdiv_rn(kLargest, largest) : 0.0f;
  for (std::int64_t i = threadIdx.x; i < k; i += kThreads) {
    // A product below 2^-126 rounds to zero, whether it is flushed or not. Without `usual` a NaN must not be rounded.
    to.values[row * k + i] = usual ? to_e4m3(__fmul_rn(wide(from[i]), inverse)) : std::uint8_t{0};
  }
}

// One warp per chunk: writes its values, then its scales.
__global__ void __launch_bounds__(kThreads)
    pack_kernel(PlainFp8Weight from, Fp8Format format, Fp8Layout layout, std::byte* to) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= layout.panels * layout.chunks) return;
  const std::int64_t panel = at / layout.chunks, chunk = at % layout.chunks;
  std::byte* const out = to + panel * layout.panel_bytes + chunk * layout.chunk_bytes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = panel * kFp8Panel + lane / 4, column = chunk * kFp8Chunk + lane % 4 * 2;
  const auto value = [&](std::int64_t k) -> std::uint32_t {
    return row < format.n && k < format.k ? from.values[row * format.k + k] : 0u;
  };
  const auto word = [&](int step) {
    const std::int64_t k = column + step * kFp8Step;
    return value(k + 8) | value(k) << 8 | value(k + 9) << 16 | value(k + 1) << 24;
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    reinterpret_cast<uint4*>(out)[32 * half + lane] = {word(4 * half), word(4 * half + 1), word(4 * half + 2),
                                                       word(4 * half + 3)};
  }
  if (format.grouped && lane < kFp8Panel) {
    const std::int64_t n = panel * kFp8Panel + lane;
    reinterpret_cast<float*>(out + kFp8ValueBytes)[lane] = n < format.n ? from.scales[n * layout.groups + chunk] : 0.0f;
  }
}

// Formats with one scale a row: writes the scales after the panels.
__global__ void __launch_bounds__(kThreads)
    pack_scales_kernel(PlainFp8Weight from, Fp8Format format, Fp8Layout layout, std::byte* to) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= layout.panels * kFp8Panel) return;
  reinterpret_cast<float*>(to + layout.scales)[n] = n < format.n ? from.scales[n] : 0.0f;
}

unsigned blocks_of(std::int64_t count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

template <typename T>
void quantize(const void* rows, std::int64_t num_rows, std::int64_t first_row, std::int64_t k, const PlainFp8Weight& to,
              cudaStream_t stream) {
  quantize_kernel<<<static_cast<unsigned>(num_rows), kThreads, 0, stream>>>(static_cast<const T*>(rows), first_row, k,
                                                                            to);
}

}  // namespace

cudaError_t launch_quantize_fp8(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                std::int64_t k, const PlainFp8Weight& to, cudaStream_t stream) {
  if (num_rows == 0) return cudaSuccess;
  switch (type) {
    case FloatType::kBf16:
      quantize<Bf16>(rows, num_rows, first_row, k, to, stream);
      break;
    case FloatType::kF16:
      quantize<__half>(rows, num_rows, first_row, k, to, stream);
      break;
    case FloatType::kF32:
      quantize<float>(rows, num_rows, first_row, k, to, stream);
      break;
  }
  return cudaGetLastError();
}

cudaError_t launch_pack_fp8(const PlainFp8Weight& from, const Fp8Format& format, std::byte* to, cudaStream_t stream) {
  const Fp8Layout layout(format);
  pack_kernel<<<blocks_of(layout.panels * layout.chunks, kWarps), kThreads, 0, stream>>>(from, format, layout, to);
  if (!format.grouped) {
    pack_scales_kernel<<<blocks_of(layout.panels * kFp8Panel, kThreads), kThreads, 0, stream>>>(from, format, layout,
                                                                                                to);
  }
  return cudaGetLastError();
}

}  // namespace mortise::cuda
