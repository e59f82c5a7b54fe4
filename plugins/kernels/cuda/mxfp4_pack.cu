#include "kernels/cuda/mxfp4_pack.hpp"

#include <cuda_fp16.h>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/mxfp4_rows.cuh"
#include "kernels/cuda/packed.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr std::uint32_t kInfinity = 0x7f800000u;
static_assert(kMxfp4Columns == 32, "a lane for each column of a group");

__device__ __forceinline__ float wide(Bf16 x) {
  return from_bf16(x);
}
__device__ __forceinline__ float wide(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float wide(float x) {
  return x;
}

// How many of the points halfway between two numbers of E2M1 x >= 0 has passed.
__device__ __forceinline__ std::uint32_t nearest_e2m1(float x) {
  return (x > 0.25f) + (x >= 0.75f) + (x > 1.25f) + (x >= 1.75f) + (x > 2.5f) + (x >= 3.5f) + (x > 5.0f);
}

// One warp for each group.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const T* rows, std::int64_t num_rows, std::int64_t first_row, std::int64_t k, PlainMxfp4Weight to,
                    unsigned long long* first_odd) {
  const std::int64_t groups = (k + kMxfp4Columns - 1) / kMxfp4Columns;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= num_rows * groups) return;
  const std::int64_t from = at / groups, row = first_row + from;
  const std::int64_t column = at % groups * kMxfp4Columns + threadIdx.x % 32;
  const std::uint32_t bits = column < k ? __float_as_uint(wide(rows[from * k + column])) : 0u;
  const std::uint32_t magnitude = bits & 0x7fffffffu, most = __reduce_max_sync(0xffffffffu, magnitude);
  if (most >= kInfinity) {
    if (threadIdx.x % 32 == 0) atomicMin(first_odd, static_cast<unsigned long long>(row));
    return;
  }
  const std::uint32_t exponent = max(most >> 23, 2u) - 2u;
  if (threadIdx.x % 32 == 0) {
    to.scales[row * groups + at % groups] = __uint_as_float(exponent == 0 ? 1u << 22 : exponent << 23);
  }
  if (column >= k) return;
  const float whole = magnitude < 1u << 23 ? 0.0f : __uint_as_float(magnitude);  // a denormal counts as zero
  const float scaled = __fmul_rn(whole, __uint_as_float((254u - exponent) << 23));
  to.values[row * k + column] = static_cast<std::uint8_t>(nearest_e2m1(scaled) | bits >> 31 << 3);
}

// One warp for each chunk.
__global__ void __launch_bounds__(kThreads) pack_kernel(PlainMxfp4Weight from, std::int64_t n, std::int64_t k,
                                                        Mxfp4Layout layout, std::byte* to, unsigned* largest) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= layout.panels * layout.chunks) return;
  const std::int64_t panel = at / layout.chunks, chunk = at % layout.chunks;
  std::byte* const out = to + at * kMxfp4ChunkBytes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = panel * kMxfp4Panel + lane / 4, column = chunk * kMxfp4Chunk + lane % 4 * 2;
  // The number of a column in a word's lower half.
  const auto value = [&](std::int64_t c, const Mxfp4Place& place) -> std::uint32_t {
    const std::uint32_t bits = row < n && c < k ? from.values[row * k + c] : 0u;
    return (bits & 8u ? place.sign : 0u) | (bits & 4u ? place.high : 0u) | (bits & 2u ? place.low : 0u) |
           (bits & 1u ? place.mantissa : 0u);
  };
  std::uint32_t words[kMxfp4Groups];
#pragma unroll
  for (int i = 0; i < kMxfp4Groups; ++i) {
    words[i] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t c = column + i * kMxfp4Columns + j * 8;
      words[i] |= value(c, mxfp4_place(j)) | value(c + 1, mxfp4_place(j)) << 16;
    }
  }
  reinterpret_cast<uint4*>(out)[lane] = {words[0], words[1], words[2], words[3]};
  const std::int64_t its_row = panel * kMxfp4Panel + lane / kMxfp4Groups,
                     group = chunk * kMxfp4Groups + lane % kMxfp4Groups;
  const bool exists = its_row < n && group < layout.groups;
  const std::uint32_t scale = exists ? __float_as_uint(from.scales[its_row * layout.groups + group]) : 0u;
  out[kMxfp4ValueBytes + lane] = static_cast<std::byte>(exists ? (scale >> 23) + 1u : 0u);
  const std::uint32_t most = __reduce_max_sync(0xffffffffu, scale >> 23);
  if (lane == 0 && most > kMxfp4SmallExponent) atomicMax(largest, most);
}

// One warp for each chunk. A lane writes eight neighbours of each group.
__global__ void __launch_bounds__(kThreads)
    widen_kernel(const std::byte* w, std::int64_t n, std::int64_t k, std::int64_t chunks, Bf16* to) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= (n + kMxfp4Panel - 1) / kMxfp4Panel * chunks) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::byte* const from = w + at * kMxfp4ChunkBytes;
  const uint4 vector = __ldg(reinterpret_cast<const uint4*>(from) + lane);
  const std::uint32_t exponents = __ldg(reinterpret_cast<const std::uint32_t*>(from + kMxfp4ValueBytes) + lane / 4);
  const std::uint32_t words[kMxfp4Groups] = {vector.x, vector.y, vector.z, vector.w};
  const std::int64_t row = at / chunks * kMxfp4Panel + lane / 4, column = at % chunks * kMxfp4Chunk + lane % 4 * 8;
#pragma unroll
  for (int i = 0; i < kMxfp4Groups; ++i) {
    std::uint32_t pairs[4];
    widen_mxfp4<false>(words[i], factors_of<false>(exponents, i), pairs);
    transpose(pairs);
    const std::int64_t c = column + i * kMxfp4Columns;
    if (row >= n || c >= k) continue;
    Bf16* const out = to + row * k + c;
    if (k % 8 == 0) {
      *reinterpret_cast<uint4*>(out) = {pairs[0], pairs[1], pairs[2], pairs[3]};
      continue;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (c + j < k) out[j] = static_cast<Bf16>(pairs[j / 2] >> j % 2 * 16);
    }
  }
}

unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>((count + kWarps - 1) / kWarps);
}

template <typename T>
void quantize(const void* rows, std::int64_t num_rows, std::int64_t first_row, std::int64_t k,
              const PlainMxfp4Weight& to, unsigned long long* first_odd, cudaStream_t stream) {
  const std::int64_t groups = (k + kMxfp4Columns - 1) / kMxfp4Columns;
  quantize_kernel<<<blocks_of(num_rows * groups), kThreads, 0, stream>>>(static_cast<const T*>(rows), num_rows,
                                                                         first_row, k, to, first_odd);
}

}  // namespace

cudaError_t launch_quantize_mxfp4(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                  std::int64_t k, const PlainMxfp4Weight& to, unsigned long long* first_odd,
                                  cudaStream_t stream) {
  if (num_rows == 0) return cudaSuccess;
  switch (type) {
    case FloatType::kBf16:
      quantize<Bf16>(rows, num_rows, first_row, k, to, first_odd, stream);
      break;
    case FloatType::kF16:
      quantize<__half>(rows, num_rows, first_row, k, to, first_odd, stream);
      break;
    case FloatType::kF32:
      quantize<float>(rows, num_rows, first_row, k, to, first_odd, stream);
      break;
  }
  return cudaGetLastError();
}

cudaError_t launch_pack_mxfp4(const PlainMxfp4Weight& from, std::int64_t n, std::int64_t k, std::byte* to,
                              unsigned* largest, cudaStream_t stream) {
  const Mxfp4Layout layout(n, k);
  pack_kernel<<<blocks_of(layout.panels * layout.chunks), kThreads, 0, stream>>>(from, n, k, layout, to, largest);
  return cudaGetLastError();
}

cudaError_t launch_widen_mxfp4(const LinearMxfp4Args& args, std::uint16_t* to, cudaStream_t stream) {
  if (args.n == 0) return cudaSuccess;
  const Mxfp4Layout layout(args.n, args.k);
  const std::byte* const first = args.w + args.first_column / kMxfp4Panel * layout.panel_bytes;
  const std::int64_t panels = (args.n + kMxfp4Panel - 1) / kMxfp4Panel;
  widen_kernel<<<blocks_of(panels * layout.chunks), kThreads, 0, stream>>>(first, args.n, args.k, layout.chunks, to);
  return cudaGetLastError();
}

}  // namespace mortise::cuda
