// plugins/kernels/cuda/int_rows.cuh: quantises rows of x to signed bytes with one scale per row (docs/numerics.md,
// "Quantised linear", Activations), eight elements at a time.
#pragma once

#include <cstdint>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// A row of x in the order of w: column j of w is multiplied by element order[j]. A value in registers: each thread has
// its own.
class IntRow {
 public:
  __device__ IntRow(const LinearIntArgs& args, std::int64_t row)
      : x_(args.x + row * args.x_stride),
        order_(args.order),
        k_(static_cast<int>(args.format.k)),
        whole_vectors_(args.order == nullptr && args.x_stride % 8 == 0 &&
                       reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0) {}

  // Elements 8 i .. 8 i + 7 as pairs of bf16. Zeros past the end of the row.
  __device__ __forceinline__ uint4 eight(int i) const {
    if (whole_vectors_ && 8 * i + 8 <= k_) return *reinterpret_cast<const uint4*>(x_ + 8 * i);
    std::uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) words[j] = one(8 * i + 2 * j) | one(8 * i + 2 * j + 1) << 16;
    return {words[0], words[1], words[2], words[3]};
  }

 private:
  __device__ __forceinline__ std::uint32_t one(int j) const {
    return j >= k_ ? 0u : x_[order_ == nullptr ? j : order_[j]];
  }
  const std::uint16_t* x_;
  const std::int32_t* order_;
  int k_;
  bool whole_vectors_;
};

// The largest magnitude as the bits of a bf16. The bits order as the numbers do, with NaN and infinity above all
// numbers.
__device__ __forceinline__ std::uint32_t largest_of(const uint4& x) {
  const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
  std::uint32_t most = 0;
#pragma unroll
  for (const std::uint32_t word : words) most = max(most, max(word & 0x7fffu, word >> 16 & 0x7fffu));
  return most;
}

struct IntRowScale {
  float scale, inverse;  // inverse 0: all q are 0
};

__device__ __forceinline__ IntRowScale scale_of(std::uint32_t largest, float most_steps = 127.0f) {
  // 2^-119 (for 127 steps), 2^-117 (for 448): below it, scales would be denormals.
  constexpr std::uint32_t kInfinity = 0x7f80u;
  const std::uint32_t smallest = (most_steps > 128.0f ? 127u - 117u : 127u - 119u) << 7;
  if (largest >= kInfinity) return {__uint_as_float(0x7fc00000u), 0.0f};
  if (largest < smallest) return {0.0f, 0.0f};
  const float a = from_bf16(static_cast<Bf16>(largest));
  return {__fdiv_rn(a, most_steps), __fdiv_rn(most_steps, a)};
}

// Quantises eight elements, one byte each.
__device__ __forceinline__ uint2 quantized(const uint4& x, float inverse) {
  if (inverse == 0.0f) return {0u, 0u};  // infinity times 0 would not be 0
  const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // The sum with 1.5 * 2^23 rounds to the nearest integer, ties to even, and has it in its low bits. A conversion
    // would take eight times as long.
    const float low = __fadd_rn(__fmul_rn(__uint_as_float(words[i] << 16), inverse), 12582912.0f);
    const float high = __fadd_rn(__fmul_rn(__uint_as_float(words[i] & 0xffff0000u), inverse), 12582912.0f);
    pairs[i] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x0040);
  }
  return {__byte_perm(pairs[0], pairs[1], 0x5410), __byte_perm(pairs[2], pairs[3], 0x5410)};
}

// kWarps warps of a block together quantise a row of `vectors` times eight elements. They meet at the named barrier
// kBarrier. `largest`: shared memory for a number of each warp. `put(i, q)` receives elements 8 i .. 8 i + 7; a thread
// has every (32 kWarps)-th vector. Whole warps call it, so i may also be `vectors` or more: then q is 0. When this
// returns, the scale and what `put` wrote are complete.
template <int kWarps, int kBarrier, class Put>
__device__ __forceinline__ void quantize_row_together(const IntRow& x, int vectors, float* scale,
                                                      std::uint32_t* largest, const Put& put) {
  constexpr int kStep = kWarps * 32, kKept = 4;  // vectors that a thread keeps in registers
  const int thread = static_cast<int>(threadIdx.x), first_of_warp = thread / 32 * 32;
  const auto meet = [] { asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kStep) : "memory"); };
  uint4 kept[kKept];
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    kept[i] = thread + i * kStep < vectors ? x.eight(thread + i * kStep) : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (const uint4& vector : kept) most = max(most, largest_of(vector));
  for (int i = thread + kKept * kStep; i < vectors; i += kStep) most = max(most, largest_of(x.eight(i)));
  most = __reduce_max_sync(0xffffffffu, most);
  if (thread % 32 == 0) largest[thread / 32] = most;
  meet();
#pragma unroll
  for (int i = 0; i < kWarps; ++i) most = max(most, largest[i]);
  const IntRowScale result = scale_of(most);
  if (thread == 0) *scale = result.scale;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (first_of_warp + i * kStep < vectors) put(thread + i * kStep, quantized(kept[i], result.inverse));
  }
  for (int i = kKept * kStep; first_of_warp + i < vectors; i += kStep) {
    put(thread + i, quantized(x.eight(thread + i), result.inverse));
  }
  meet();
}

}  // namespace mortise::cuda
