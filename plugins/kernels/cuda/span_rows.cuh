// plugins/kernels/cuda/span_rows.cuh: the softmax of one span for the 16 rows that a warp holds as accumulators of the
// tensor cores. Lane l has rows l / 4 and l / 4 + 8 (`half` 0 and 1), and of these keys 8 i + 2 (l % 4) and the next.
#pragma once

#include <cstdint>

#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/span_math.cuh"
#include "kernels/cuda/span_mma.cuh"

namespace mortise::cuda::span {

constexpr int kKeyTiles = kSpan / 8;
using Scores = float[kKeyTiles][4];
using Probabilities = std::uint32_t[kSpanChunks][4];  // bf16, as operand A of P V

// A row sees the keys low .. high. A value.
struct Visible {
  int low, high;
  __device__ __forceinline__ bool operator()(int key) const {
    return static_cast<unsigned>(key - low) <= static_cast<unsigned>(high - low);
  }
};

__device__ __forceinline__ Visible visible_at(int position, int window) {
  return {window > 0 ? max(position - window + 1, 0) : 0, position};
}

// Sets the scores of keys that their row does not see to -infinity, so that they are not the maximum. `first_key`: this
// lane's key in tile 0.
__device__ __forceinline__ void hide(Scores& s, const Visible (&sees)[2], int first_key) {
#pragma unroll
  for (int i = 0; i < kKeyTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (!sees[j / 2](first_key + 8 * i + j % 2)) s[i][j] = -infinity();
    }
  }
}

// Sets the probabilities of keys that their row does not see to 0, in chunks kBegin .. kEnd.
template <int kBegin = 0, int kEnd = kSpanChunks>
__device__ __forceinline__ void hide(Probabilities& p, const Visible (&sees)[2], int first_key) {
#pragma unroll
  for (int i = 2 * kBegin; i < 2 * kEnd; ++i) {
    const int key = first_key + 8 * i;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      p[i / 2][i % 2 * 2 + half] &= (sees[half](key) ? 0x0000ffffu : 0u) | (sees[half](key + 1) ? 0xffff0000u : 0u);
    }
  }
}

// Returns the exponent m of the row's weights in this span.
template <int half>
__device__ __forceinline__ float row_exponent(const Scores& s, float scale) {
  // four independent maxima, so that their operations overlap
  float side[4] = {-infinity(), -infinity(), -infinity(), -infinity()};
#pragma unroll
  for (int i = 0; i < kKeyTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) side[i % 2 * 2 + j] = larger(side[i % 2 * 2 + j], s[i][2 * half + j]);
  }
  float m = larger(larger(side[0], side[1]), larger(side[2], side[3]));
  m = larger(m, __shfl_xor_sync(kWarp, m, 1));
  m = larger(m, __shfl_xor_sync(kWarp, m, 2));
  return weight_exponent(m, scale);  // rounding is monotonic: this is the largest of the rounded products
}

// Computes the row's probabilities in chunks kBegin .. kEnd.
template <int half, int kBegin = 0, int kEnd = kSpanChunks>
__device__ __forceinline__ void row_probabilities(const Scores& s, float scale, float m, Probabilities& p) {
  const WeightLine line = weight_line(scale, m);
  constexpr int kTogether = 4;  // key tiles of an iteration; a thread has two scores of a row in each
#pragma unroll
  for (int i = 2 * kBegin; i < 2 * kEnd; i += kTogether) {
    float w[2 * kTogether];
#pragma unroll
    for (int j = 0; j < 2 * kTogether; ++j) w[j] = s[i + j / 2][2 * half + j % 2];
    to_probabilities(w, line);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) p[(i + j) / 2][(i + j) % 2 * 2 + half] = pack(w[2 * j], w[2 * j + 1]);
  }
}

__device__ __forceinline__ int first_span(const SpanRun& run, int window) {
  return visible_at(run.position, window).low / kSpan;
}

// The chunks of a span, [begin, end), of which some row between `first` and `last` (positions) sees a key.
struct Chunks {
  int begin, end;
};
__device__ __forceinline__ Chunks chunks_of(int span, int first, int last, int window) {
  const int low = visible_at(first, window).low / kKeyChunk - span * kSpanChunks;
  const int high = last / kKeyChunk + 1 - span * kSpanChunks;
  return {max(low, 0), min(high, kSpanChunks)};
}

// Returns whether every row between the positions sees every key of the span.
__device__ __forceinline__ bool sees_all(int span, int first, int last, int window) {
  return visible_at(last, window).low <= span * kSpan && first >= span * kSpan + kSpan - 1;
}

// Stores two neighbouring elements of out.
__device__ __forceinline__ void store_pair(Bf16Bits* out, float o0, float o1, float inverse_of_sum) {
  *reinterpret_cast<std::uint32_t*>(out) =
      with_canonical_nans(two_bf16(normalised(o0, inverse_of_sum), normalised(o1, inverse_of_sum)));
}

}  // namespace mortise::cuda::span
