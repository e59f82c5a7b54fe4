#include "kernels/cuda/int_pack.hpp"

#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/cuda/bf16.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

__device__ __forceinline__ float wide(Bf16 x) {
  return from_bf16(x);
}
__device__ __forceinline__ float wide(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float wide(float x) {
  return x;
}

// Denormals count as zero in comparisons as well.
__device__ __forceinline__ float flushed(float x) {
  return (__float_as_uint(x) & 0x7f800000u) == 0 ? 0.0f : x;
}

struct Range {
  float low = 0, high = 0;    // over the numbers of a group and 0
  std::uint32_t largest = 0;  // the largest magnitude as bits; NaN and infinity are larger than all numbers
  __device__ __forceinline__ void take(float x) {
    low = fminf(low, flushed(x)), high = fmaxf(high, flushed(x));
    largest = max(largest, __float_as_uint(x) & 0x7fffffffu);
  }
};

__device__ __forceinline__ Range over_warp(Range range) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) {
    range.low = fminf(range.low, __shfl_xor_sync(0xffffffffu, range.low, other));
    range.high = fmaxf(range.high, __shfl_xor_sync(0xffffffffu, range.high, other));
  }
  range.largest = __reduce_max_sync(0xffffffffu, range.largest);
  return range;
}

struct Group {
  float scale, inverse;  // inverse 0: all values are the zero point
  int zero;
};

__device__ __forceinline__ Group group_of(const Range& range, int bits) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  constexpr float kSmallest = 0x1p-119f;  // with a smaller range, a scale would be a denormal
  const float steps = bits == 8 ? 127.0f : 15.0f;
  const int nothing = bits == 8 ? 128 : 0;
  const float size = bits == 8 ? __uint_as_float(range.largest) : __fsub_rn(range.high, range.low);
  const bool numbers = range.largest < kInfinity && (__float_as_uint(size) & 0x7fffffffu) < kInfinity;
  if (!numbers) return {__uint_as_float(0x7fc00000u), 0.0f, nothing};
  if (size < kSmallest) return {0.0f, 0.0f, nothing};
  const float inverse = __fdiv_rn(steps, size);
  return {__fdiv_rn(size, steps), inverse, bits == 8 ? 128 : __float2int_rn(__fmul_rn(-range.low, inverse))};
}

// One warp per group.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const T* rows, std::int64_t num_groups, std::int64_t first_row, IntFormat format,
                    std::int64_t groups, PlainIntWeight to) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= num_groups) return;
  const std::int64_t row = at / groups, group = at % groups;
  const std::int64_t begin = group * format.group_size;
  const int count = static_cast<int>(min(format.group_size, format.k - begin));
  const T* const from = rows + row * format.k + begin;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Range range;
#pragma unroll 4
  for (int i = lane; i < count; i += 32) range.take(wide(from[i]));
  const Group result = group_of(over_warp(range), format.bits);
  const std::int64_t entry = (first_row + row) * groups + group;
  if (lane == 0) {
    to.scales[entry] = result.scale;
    to.zeros[entry] = static_cast<std::uint8_t>(result.zero);
  }
  std::uint8_t* const values = to.values + (first_row + row) * format.k + begin;
  const int most = format.bits == 8 ? 255 : 15;
#pragma unroll 4
  for (int i = lane; i < count; i += 32) {
    int value = result.zero;
    if (result.inverse != 0.0f) value += __float2int_rn(__fmul_rn(wide(from[i]), result.inverse));
    values[i] = static_cast<std::uint8_t>(min(max(value, 0), most));
  }
}

// The value at row n, column k. Outside of the matrix it is zero (-128 for 8 bits, as stored).
__device__ __forceinline__ std::uint32_t value_at(const PlainIntWeight& from, const IntFormat& format, std::int64_t n,
                                                  std::int64_t k) {
  return n < format.n && k < format.k ? from.values[n * format.k + k] : 0u;
}

// A word of a step: the values of row n in four columns from k on.
__device__ __forceinline__ std::uint32_t four_at(const PlainIntWeight& from, const IntFormat& format, std::int64_t n,
                                                 std::int64_t k) {
  std::uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) word |= value_at(from, format, n, k + i) << 8 * i;
  return word;
}

// One warp per chunk: writes its values, then its sets. A set that belongs to no group has scales of -0: its term, 0
// times -0, changes no sum, not even the sign of a zero. `unusual` is set to 1 if a scale is not usual.
__global__ void __launch_bounds__(kThreads)
    pack_kernel(PlainIntWeight from, IntFormat format, IntLayout layout, std::byte* to, std::uint32_t* unusual) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= layout.panels * layout.chunks) return;
  const std::int64_t panel = at / layout.chunks, chunk = at % layout.chunks;
  std::byte* const out = to + panel * layout.panel_bytes + chunk * layout.chunk_bytes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = panel * kIntPanel + lane / 4, column = chunk * kIntChunk + lane % 4 * 4;
  const auto word = [&](int step, int j) {
    return four_at(from, format, row + 8 * (j % 2), column + kIntStep * step + 16 * (j / 2));
  };
  auto* const vectors = reinterpret_cast<uint4*>(out) + lane;
  if (format.bits == 8) {
    constexpr std::uint32_t kSigned = 0x80808080u;  // subtracts 128
#pragma unroll
    for (int step = 0; step < kIntSteps; ++step) {
      vectors[32 * step] = {word(step, 0) ^ kSigned, word(step, 1) ^ kSigned, word(step, 2) ^ kSigned,
                            word(step, 3) ^ kSigned};
    }
  } else {
#pragma unroll
    for (int step = 0; step < kIntSteps; step += 2) {
      const auto both = [&](int j) { return word(step, j) | word(step + 1, j) << 4; };
      vectors[16 * step] = {both(0), both(1), both(2), both(3)};
    }
  }
  const int sets = layout.whole ? 0 : kIntChunk / layout.column_group;
  for (int i = lane; i < sets * kIntPanel; i += 32) {
    const int set = i / kIntPanel, n = i % kIntPanel;
    const std::int64_t k = chunk * kIntChunk + set * layout.column_group;
    const bool there = panel * kIntPanel + n < format.n && k < format.k;
    const std::int64_t entry = (panel * kIntPanel + n) * layout.groups + k / format.group_size;
    std::byte* const here = out + layout.value_bytes + set * kIntSetBytes;
    const float scale = there ? from.scales[entry] : -0.0f;
    reinterpret_cast<float*>(here)[n] = scale;
    if (!is_usual_scale(__float_as_uint(scale))) *unusual = 1;
    reinterpret_cast<std::uint8_t*>(here + 4 * kIntPanel)[n] = there ? from.zeros[entry] : std::uint8_t{0};
  }
}

// Formats with one group a row: writes scales and zero points after the panels.
__global__ void __launch_bounds__(kThreads)
    pack_rows_kernel(PlainIntWeight from, IntFormat format, IntLayout layout, std::byte* to) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= layout.panels * kIntPanel) return;
  const bool there = n < format.n;
  reinterpret_cast<float*>(to + layout.scales)[n] = there ? from.scales[n] : 0.0f;
  reinterpret_cast<std::uint8_t*>(to + layout.zeros)[n] = there ? from.zeros[n] : std::uint8_t{0};
}

unsigned blocks_of(std::int64_t count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

template <typename T>
void quantize(const void* rows, std::int64_t num_rows, std::int64_t first_row, const IntFormat& format,
              const PlainIntWeight& to, cudaStream_t stream) {
  const std::int64_t groups = IntLayout(format).groups, all = num_rows * groups;
  quantize_kernel<<<blocks_of(all, kWarps), kThreads, 0, stream>>>(static_cast<const T*>(rows), all, first_row, format,
                                                                   groups, to);
}

}  // namespace

cudaError_t launch_quantize_weights(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                    const IntFormat& format, const PlainIntWeight& to, cudaStream_t stream) {
  if (num_rows == 0) return cudaSuccess;
  switch (type) {
    case FloatType::kBf16:
      quantize<Bf16>(rows, num_rows, first_row, format, to, stream);
      break;
    case FloatType::kF16:
      quantize<__half>(rows, num_rows, first_row, format, to, stream);
      break;
    case FloatType::kF32:
      quantize<float>(rows, num_rows, first_row, format, to, stream);
      break;
  }
  return cudaGetLastError();
}

cudaError_t launch_pack_weights(const PlainIntWeight& from, const IntFormat& format, std::byte* to,
                                std::uint32_t* unusual, cudaStream_t stream) {
  const IntLayout layout(format);
  pack_kernel<<<blocks_of(layout.panels * layout.chunks, kWarps), kThreads, 0, stream>>>(from, format, layout, to,
                                                                                         unusual);
  if (layout.whole) {
    pack_rows_kernel<<<blocks_of(layout.panels * kIntPanel, kThreads), kThreads, 0, stream>>>(from, format, layout, to);
  }
  return cudaGetLastError();
}

}  // namespace mortise::cuda
