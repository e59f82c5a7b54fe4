// Norms and rotates q and k, and writes K and V to their slots (docs/numerics.md, "Norms", "Rope", "What is written"),
// with the same bits as the CPU. A "lane group" handles a query head, or K and V of a KV head; each lane handles
// eight neighbouring elements. The size of a lane group is a power of two, so for some head sizes its last lanes have
// no elements.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/int_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_head_dim.hpp"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kVector = 8;
constexpr int kLanes = 16;  // partial results of a reduction
constexpr unsigned kWarp = 0xffffffffu;
constexpr std::uint32_t kNans = 0x7fc07fc0u;  // two NaNs in bf16

template <int kHeadDim>
constexpr int kGroupLanes = kHeadDim <= 32    ? 4
                            : kHeadDim <= 64  ? 8
                            : kHeadDim <= 128 ? 16
                                              : 32;

// Returns whether eight elements are finite. If a number is not finite, its exponent is all ones; adding one to the
// exponent then carries into the sign bit, which has been cleared.
__device__ __forceinline__ bool all_finite(const uint4& u) {
  const auto carried = [](std::uint32_t word) { return (word & 0x7fff7fffu) + 0x00800080u; };
  return ((carried(u.x) | carried(u.y) | carried(u.z) | carried(u.w)) & 0x80008000u) == 0;
}

// Returns 1 / sqrt(mean of squares + eps). There are sixteen chains: chain i sums elements i, i + 16, ..; a tree adds
// the chains. A lane of a lane group has the chains lane, lane + kGroup, ..; in lane groups of 32 the upper half
// repeats the work of the lower half.
template <int kHeadDim>
__device__ float inverse_rms(const Bf16* row, int lane, float eps) {
  constexpr int kGroup = kGroupLanes<kHeadDim>, kEach = kGroup < kLanes ? kLanes / kGroup : 1;
  float q[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    q[e] = 0.0f;
#pragma unroll
    for (int i = 0; i < kHeadDim; i += kLanes) {
      const float x = from_bf16(row[i + e * kGroup + lane % kLanes]);
      q[e] = __fmaf_rn(x, x, q[e]);
    }
  }
  // The tree adds chains that are 8, 4, 2, 1 apart. A lane's own chains are farthest apart, so they are added first.
#pragma unroll
  for (int half = kEach / 2; half > 0; half /= 2) {
#pragma unroll
    for (int e = 0; e < half; ++e) q[e] = __fadd_rn(q[e], q[e + half]);
  }
  float sum = q[0];
#pragma unroll
  for (int distance = kLanes / kEach / 2; distance > 0; distance /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, distance));
  }
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(sum, static_cast<float>(kHeadDim)), eps)));
}

// Gets x[d] from the lane that has it. If all elements of a vector need a partner at the same distance (`aligned`),
// that is one exchange between lanes.
template <int kHeadDim>
__device__ __forceinline__ float element(const float (&x)[kVector], int i, int d, bool aligned) {
  constexpr int kGroup = kGroupLanes<kHeadDim>;
  if (aligned) return __shfl_sync(kWarp, x[i], d / kVector, kGroup);
  float taken = 0.0f;
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    const float candidate = __shfl_sync(kWarp, x[j], d / kVector, kGroup);
    taken = d % kVector == j ? candidate : taken;
  }
  return taken;
}

// Loads eight neighbouring entries of a table row, whose length and start are multiples of 8.
__device__ __forceinline__ void load_angles(const float* at, float (&x)[kVector]) {
  const float4 low = reinterpret_cast<const float4*>(at)[0], high = reinterpret_cast<const float4*>(at)[1];
  x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
  x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

// Rotates the pairs (i, i + rotary_dim / 2) if rotary_dim / 2 is a multiple of 8. All partners of a lane's elements are
// then in one other lane, and its angles are neighbours. All lanes of the warp call this: they exchange elements.
template <int kHeadDim>
__device__ __forceinline__ void rotate_halves(const float* cos, const float* sin, int rotary_dim, int lane,
                                              float (&x)[kVector]) {
  const int half = rotary_dim / 2, d = lane * kVector;
  const bool upper = d >= half, inside = d < rotary_dim;
  const int from = !inside ? d : upper ? d - half : d + half;
  float other[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) other[i] = element<kHeadDim>(x, i, from + i, /*aligned=*/true);
  if (!inside) return;
  float c[kVector], s[kVector];
  load_angles(cos + (upper ? d - half : d), c);
  load_angles(sin + (upper ? d - half : d), s);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float mine = __fmul_rn(x[i], c[i]), theirs = __fmul_rn(other[i], s[i]);
    x[i] = __fadd_rn(mine, upper ? theirs : -theirs);
  }
}

// Rotates any other pairs and lengths, element by element.
template <int kHeadDim>
__device__ __forceinline__ void rotate_any(const float* cos, const float* sin, int rotary_dim, bool interleaved,
                                           int lane, float (&x)[kVector]) {
  const int half = rotary_dim / 2;
  float y[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const int d = lane * kVector + i;
    const bool inside = d < rotary_dim;
    const bool upper = interleaved ? i % 2 != 0 : d >= half;
    const int pair = interleaved ? d / 2 : upper ? d - half : d;
    float other = x[i ^ 1];
    if (!interleaved) other = element<kHeadDim>(x, i, !inside ? d : upper ? d - half : d + half, /*aligned=*/false);
    y[i] = x[i];
    if (!inside) continue;
    const float mine = __fmul_rn(x[i], cos[pair]), theirs = __fmul_rn(other, sin[pair]);
    y[i] = __fadd_rn(mine, upper ? theirs : -theirs);
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) x[i] = y[i];
}

template <int kHeadDim>
__device__ __forceinline__ void rotate(const SpanAppend& a, int position, int lane, float (&x)[kVector]) {
  const int half = a.rotary_dim / 2;
  const float* cos = a.cos + static_cast<std::int64_t>(position) * half;
  const float* sin = a.sin + static_cast<std::int64_t>(position) * half;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(a.cos) | reinterpret_cast<std::uintptr_t>(a.sin)) % 16 == 0;
  if (!a.interleaved && half % kVector == 0 && aligned) {
    rotate_halves<kHeadDim>(cos, sin, a.rotary_dim, lane, x);
  } else {
    rotate_any<kHeadDim>(cos, sin, a.rotary_dim, a.interleaved, lane, x);
  }
}

// Rounds eight elements to E4M3, one byte each.
__device__ __forceinline__ uint2 rounded_to_fp8(const uint4& x, float inverse) {
  if (inverse == 0.0f) return {0u, 0u};  // infinity times 0 would not be 0
  const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t low = to_e4m3(__fmul_rn(__uint_as_float(words[i] << 16), inverse));
    pairs[i] = low | to_e4m3(__fmul_rn(__uint_as_float(words[i] & 0xffff0000u), inverse)) << 8;
  }
  return {pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16};
}

// Writes K or V of a token to a cache in bytes. Each lane of the lane group writes eight bytes, and its first lane
// writes the scale. All lanes of the warp call this: they exchange the largest absolute value.
template <int kHeadDim, SpanCache kCache>
__device__ __forceinline__ void write_bytes(const uint4& x, int lane, bool writes, Bf16Bits* chunk, int token) {
  std::uint32_t largest = largest_of(x);
#pragma unroll
  for (int distance = kGroupLanes<kHeadDim> / 2; distance > 0; distance /= 2) {
    largest = max(largest, __shfl_xor_sync(kWarp, largest, distance));
  }
  if (!writes) return;
  constexpr bool kFp8 = kCache == SpanCache::kFp8;
  const IntRowScale scale = scale_of(largest, kFp8 ? 448.0f : 127.0f);
  char* const bytes = reinterpret_cast<char*>(chunk);
  *reinterpret_cast<uint2*>(bytes + token * kHeadDim + lane * kVector) =
      kFp8 ? rounded_to_fp8(x, scale.inverse) : quantized(x, scale.inverse);
  if (lane == 0) reinterpret_cast<float*>(bytes + kKeyChunk * kHeadDim)[token] = scale.scale;
}

template <int kHeadDim, SpanCache kCache>
__global__ void __launch_bounds__(kThreads) append_kernel(const __grid_constant__ SpanAppend a) {
  constexpr int kGroup = kGroupLanes<kHeadDim>;
  let_next_kernel_begin();
  const int kv_heads = a.layout.num_kv_heads, heads = a.num_heads + kv_heads;
  const int all = a.num_tokens * heads;
  const int group = static_cast<int>(blockIdx.x * (kThreads / kGroup) + threadIdx.x / kGroup);
  const int lane = threadIdx.x % kGroup;
  const bool has_elements = lane * kVector < kHeadDim;
  // No lane of a warp returns early, because lanes exchange elements. Lane groups beyond the last head repeat it
  // without writing.
  const bool real = group < all;
  const int item = real ? group : all - 1;
  const int token = item / heads, part = item % heads;
  const bool is_q = part < a.num_heads;
  const int head = is_q ? part : part - a.num_heads;
  const Bf16Bits* row = is_q ? a.q + token * a.q_row_stride + head * a.q_head_stride
                             : a.k + token * a.k_row_stride + head * a.k_head_stride;
  wait_for_kernel_before();
  const uint4 raw = has_elements ? *reinterpret_cast<const uint4*>(row + lane * kVector) : uint4{};
  uint4 value = {};
  if (!is_q && has_elements) {
    value = *reinterpret_cast<const uint4*>(a.v + token * a.v_row_stride + head * a.v_head_stride + lane * kVector);
  }
  uint4 result = raw;
  const bool normed = a.q_norm != nullptr || a.k_norm != nullptr;
  if (normed || a.cos != nullptr) {  // has the same value in all lanes
    float x[kVector];
    unpack(raw, x);
    const Bf16Bits* norm = is_q ? a.q_norm : a.k_norm;
    if (normed) {
      const float inverse = inverse_rms<kHeadDim>(row, lane, a.eps);
      if (norm != nullptr && has_elements) {
        float weight[kVector];
        unpack(*reinterpret_cast<const uint4*>(norm + lane * kVector), weight);
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          x[i] = rounded<Bf16>(__fmul_rn(weight[i], rounded<Bf16>(__fmul_rn(x[i], inverse))));
        }
      }
    }
    if (a.cos != nullptr) rotate<kHeadDim>(a, a.positions[token], lane, x);
    if (norm != nullptr || a.cos != nullptr) result = packed_eight(x);
  }
  // Tells all lanes of the lane group whether all of V is finite.
  const unsigned of_group = (kWarp >> (32 - kGroup)) << (threadIdx.x % 32 / kGroup * kGroup);
  const bool finite = (__ballot_sync(kWarp, all_finite(value)) & of_group) == of_group;
  __syncwarp();  // all lanes have read q, which is changed in place
  if (!is_q && !finite) {
    result = {kNans, kNans, kNans, kNans};
    value = {};
  }
  const bool writes = real && has_elements;
  if (is_q && writes) {
    *reinterpret_cast<uint4*>(a.q + token * a.q_row_stride + head * a.q_head_stride + lane * kVector) = result;
  }
  using Chunk = CacheChunk<kHeadDim, kCache>;
  const std::int64_t slot = a.slots[token];
  const bool is_written = writes && !is_q && slot >= 0;
  const std::int64_t block = slot >> a.layout.block_shift;
  const int in_block = static_cast<int>(slot & (a.layout.block_size - 1));
  Bf16Bits* const to = a.kv + block * static_cast<std::int64_t>(a.layout.block_elements) +
                       head * static_cast<std::int64_t>(a.layout.head_elements);
  if constexpr (in_bytes(kCache)) {
    if (!has_elements) result = {};  // these lanes must not influence the scale
    Bf16Bits* const chunk = to + Chunk::offset(in_block / kKeyChunk * kKeyChunk);
    write_bytes<kHeadDim, kCache>(result, lane, is_written, chunk, in_block % kKeyChunk);
    write_bytes<kHeadDim, kCache>(value, lane, is_written, chunk + Chunk::offset(a.layout.block_size),
                                  in_block % kKeyChunk);
  } else if (is_written) {
    Bf16Bits* const at = to + span_offset(kHeadDim, in_block, lane * kVector);
    *reinterpret_cast<uint4*>(at) = result;
    *reinterpret_cast<uint4*>(at + Chunk::offset(a.layout.block_size)) = value;
  }
}

// The kernel for many tokens whose heads are rotated whole, by halves, without a norm, into a cache in bf16. A lane has
// eight neighbouring elements of the lower half of a head and their partners of the upper half, so lanes exchange
// nothing. kTokenGroups lane groups go through the heads of a token, each with its angles in registers: loading them
// for every head would take four times as many bytes as the head.
constexpr int kTokenGroups = 8, kManyTokens = 128;
constexpr int kHeadsTogether = 4;  // of q, whose loads are issued together

// A lane's part of a head.
struct Halves {
  uint4 low, high;
  __device__ __forceinline__ void load(const Bf16Bits* head, int d, int half) {
    low = *reinterpret_cast<const uint4*>(head + d);
    high = *reinterpret_cast<const uint4*>(head + half + d);
  }
  __device__ __forceinline__ void rotate(const float (&cos)[kVector], const float (&sin)[kVector]) {
    float x[kVector], y[kVector];
    unpack(low, x);
    unpack(high, y);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float lower = __fadd_rn(__fmul_rn(x[i], cos[i]), -__fmul_rn(y[i], sin[i]));
      y[i] = __fadd_rn(__fmul_rn(y[i], cos[i]), __fmul_rn(x[i], sin[i]));
      x[i] = lower;
    }
    low = packed_eight(x);
    high = packed_eight(y);
  }
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) append_many_kernel(const __grid_constant__ SpanAppend a) {
  constexpr int kHalf = kHeadDim / 2, kGroup = kHalf / kVector, kOfToken = kTokenGroups * kGroup;
  static_assert(kThreads % kOfToken == 0);
  let_next_kernel_begin();
  const int lane = threadIdx.x % kGroup, d = lane * kVector, group = threadIdx.x % kOfToken / kGroup;
  const int at = static_cast<int>(blockIdx.x * (kThreads / kOfToken) + threadIdx.x / kOfToken);
  // No lane returns early, because lanes vote. Those beyond the last token repeat it without writing.
  const bool real = at < a.num_tokens;
  const int token = real ? at : a.num_tokens - 1;
  wait_for_kernel_before();
  const std::int64_t angles = static_cast<std::int64_t>(a.positions[token]) * kHalf + d, slot = a.slots[token];
  float cos[kVector], sin[kVector];
  load_angles(a.cos + angles, cos);
  load_angles(a.sin + angles, sin);
  const std::int64_t block = slot >> a.layout.block_shift;
  const int in_block = static_cast<int>(slot & (a.layout.block_size - 1));
  const unsigned of_group = (kWarp >> (32 - kGroup)) << (threadIdx.x % 32 / kGroup * kGroup);
  for (int first = 0; first < a.layout.num_kv_heads; first += kTokenGroups) {
    const bool exists = first + group < a.layout.num_kv_heads;
    const int head = exists ? first + group : 0;
    Halves k, v;
    k.load(a.k + token * a.k_row_stride + head * a.k_head_stride, d, kHalf);
    v.load(a.v + token * a.v_row_stride + head * a.v_head_stride, d, kHalf);
    k.rotate(cos, sin);
    const bool finite = all_finite(v.low) && all_finite(v.high);
    if ((__ballot_sync(kWarp, finite) & of_group) != of_group) {
      k.low = k.high = {kNans, kNans, kNans, kNans};
      v.low = v.high = {};
    }
    if (!real || !exists || slot < 0) continue;
    Bf16Bits* const to = a.kv + block * static_cast<std::int64_t>(a.layout.block_elements) +
                         head * static_cast<std::int64_t>(a.layout.head_elements);
    const int values = CacheChunk<kHeadDim, SpanCache::kBf16>::offset(a.layout.block_size);
    Bf16Bits* const low = to + span_offset(kHeadDim, in_block, d);
    Bf16Bits* const high = to + span_offset(kHeadDim, in_block, kHalf + d);
    *reinterpret_cast<uint4*>(low) = k.low;
    *reinterpret_cast<uint4*>(high) = k.high;
    *reinterpret_cast<uint4*>(low + values) = v.low;
    *reinterpret_cast<uint4*>(high + values) = v.high;
  }
  if (!real) return;
  Bf16Bits* const row = a.q + token * a.q_row_stride;
  for (int first = group; first < a.num_heads; first += kHeadsTogether * kTokenGroups) {
    Halves q[kHeadsTogether];
#pragma unroll
    for (int i = 0; i < kHeadsTogether; ++i) {
      const int head = first + i * kTokenGroups;
      if (head < a.num_heads) q[i].load(row + head * a.q_head_stride, d, kHalf);
    }
#pragma unroll
    for (int i = 0; i < kHeadsTogether; ++i) {
      const int head = first + i * kTokenGroups;
      if (head >= a.num_heads) break;
      q[i].rotate(cos, sin);
      *reinterpret_cast<uint4*>(row + head * a.q_head_stride + d) = q[i].low;
      *reinterpret_cast<uint4*>(row + head * a.q_head_stride + kHalf + d) = q[i].high;
    }
  }
}

template <int kHeadDim>
constexpr bool kServesMany = kHeadDim == 64 || kHeadDim == 128 || kHeadDim == 256;

// Returns whether append_many_kernel takes it, provided that it serves the head size and the cache.
bool rotates_many(const SpanAppend& a) {
  return a.num_tokens >= kManyTokens && a.cos != nullptr && !a.interleaved && a.rotary_dim == a.layout.head_dim &&
         a.q_norm == nullptr && a.k_norm == nullptr &&
         (reinterpret_cast<std::uintptr_t>(a.cos) | reinterpret_cast<std::uintptr_t>(a.sin)) % 16 == 0;
}

template <int kHeadDim, SpanCache kCache>
cudaError_t launch(const SpanAppend& append, cudaStream_t stream) {
  if constexpr (kServesMany<kHeadDim> && kCache == SpanCache::kBf16) {
    constexpr std::int32_t kTokens = kThreads / (kTokenGroups * (kHeadDim / 2 / kVector));
    if (rotates_many(append)) {
      const auto blocks = static_cast<unsigned>((append.num_tokens + kTokens - 1) / kTokens);
      return launch_overlapped(append_many_kernel<kHeadDim>, blocks, kThreads, 0, stream, append);
    }
  }
  constexpr std::int64_t kPerBlock = kThreads / kGroupLanes<kHeadDim>;
  const std::int64_t heads = append.num_heads + append.layout.num_kv_heads;
  const std::int64_t blocks = (append.num_tokens * heads + kPerBlock - 1) / kPerBlock;
  return launch_overlapped(append_kernel<kHeadDim, kCache>, static_cast<unsigned>(blocks), kThreads, 0, stream, append);
}

}  // namespace

cudaError_t span_append(const SpanAppend& append, cudaStream_t stream) {
  if (append.num_tokens == 0) return cudaSuccess;
  return with_head_dim(append.layout.head_dim, append.layout.cache, [&](auto head_dim, auto cache) {
    return launch<decltype(head_dim)::value, decltype(cache)::value>(append, stream);
  });
}

}  // namespace mortise::cuda
