#include "kernels/cuda/reference/span.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/span_head_dim.hpp"
#include "kernels/cuda/span_math.cuh"
#include "kernels/cuda/span_mma.cuh"

namespace mortise::cuda::reference {
namespace {

using namespace span;

// Element d of K (or V) of a key.
template <int kHeadDim>
__device__ std::uint32_t element(const SpanArgs& args, const SpanRow& row, bool values, int key, int d) {
  const SpanLayout& layout = args.layout;
  const std::int64_t block = args.block_table[row.table + key / layout.block_size];
  const std::int64_t at = block * static_cast<std::int64_t>(layout.block_elements) +
                          row.kv_head * static_cast<std::int64_t>(layout.head_elements) +
                          (values ? layout.block_size * kHeadDim : 0) +
                          span_offset(kHeadDim, key % layout.block_size, d);
  return args.kv[at];
}

// The row is row 0 of a tile: lanes 0 to 3 hold it, the other rows are zeros.
template <int kHeadDim>
struct Row {
  const SpanArgs& args;
  const SpanRow& row;
  float* scores;  // [kSpan], shared
  Bf16Bits* p;    // [kSpan], shared
  int lane, low;

  __device__ bool sees(int key) const { return key >= low && key <= row.position; }

  __device__ void score(int start) {
    const int g = lane / 4, t = lane % 4 * 2;
    const Bf16Bits* q = args.q + row.row * args.q_row_stride + row.head * args.q_head_stride;
    for (int tile = 0; tile < kSpan; tile += 8) {
      float d[4] = {};
      const int key = start + tile + g;
      for (int step = 0; step < kHeadDim; step += 16) {
        std::uint32_t a[4] = {}, b[2] = {};
        for (int half = 0; half < 2; ++half) {
          const int at = step + 8 * half + t;
          if (g == 0) a[2 * half] = q[at] | static_cast<std::uint32_t>(q[at + 1]) << 16;
          if (sees(key)) {
            b[half] = element<kHeadDim>(args, row, /*values=*/false, key, at) |
                      element<kHeadDim>(args, row, /*values=*/false, key, at + 1) << 16;
          }
        }
        __syncwarp();
        mma(d, a, b[0], b[1]);
      }
      if (g == 0) scores[tile + t] = d[0], scores[tile + t + 1] = d[1];
    }
    __syncwarp();
  }

  __device__ float exponent(int start) const {
    float m = -infinity();
    for (int i = 0; i < kSpan; ++i) {
      if (sees(start + i)) m = larger(m, ceilf(mul(scores[i], args.scale)));
    }
    return m;
  }

  __device__ void set_probabilities(int start, float m) {
    const WeightLine line = weight_line(args.scale, m);
    for (int i = lane; i < kSpan; i += 32) {
      p[i] = sees(start + i) ? to_bf16(probability(scores[i], line)) : 0;
    }
    __syncwarp();
  }

  // Columns 8 n + 2 t and the next one of O. With n = kHeadDim / 8 they are the product with a column of ones.
  __device__ float2 values(int start, int n) const {
    const int g = lane / 4, t = lane % 4 * 2;
    float d[4] = {};
    for (int chunk = 0; chunk < kSpan; chunk += 16) {
      std::uint32_t a[4] = {}, b[2] = {};
      for (int half = 0; half < 2; ++half) {
        const int at = chunk + 8 * half + t;
        if (g == 0) a[2 * half] = p[at] | static_cast<std::uint32_t>(p[at + 1]) << 16;
        for (int i = 0; i < 2; ++i) {
          std::uint32_t v = 0;
          if (n == kHeadDim / 8) {
            v = kOnes & 0xffffu;
          } else if (sees(start + at + i)) {
            v = element<kHeadDim>(args, row, /*values=*/true, start + at + i, 8 * n + g);
          }
          b[half] |= v << (16 * i);
        }
      }
      __syncwarp();
      mma(d, a, b[0], b[1]);
    }
    return {d[0], d[1]};
  }
};

template <int kHeadDim>
__global__ void rows_kernel(SpanArgs args, const SpanRow* rows, SpanTrace trace) {
  __shared__ float scores[kSpan];
  __shared__ Bf16Bits p[kSpan];
  const SpanRow row = rows[blockIdx.x];
  const int lane = threadIdx.x;
  const int low = args.window > 0 ? max(0, row.position - args.window + 1) : 0;
  Row<kHeadDim> self{args, row, scores, p, lane, low};
  float m = -infinity(), sum = 0.0f, o[kHeadDim / 8][2] = {};
  for (int span = low / kSpan; span * kSpan <= row.position; ++span) {
    const int start = span * kSpan;
    self.score(start);
    const float m2 = self.exponent(start);
    self.set_probabilities(start, m2);
    const float sum2 = checked_sum(self.values(start, kHeadDim / 8).x, m2);
    const MergeFactors w = merge_factors(m, m2);
    m = w.m;
    sum = merged(sum, sum2, w);
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const float2 o2 = self.values(start, n);
      o[n][0] = merged(o[n][0], o2.x, w);
      o[n][1] = merged(o[n][1], o2.y, w);
    }
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * trace.num_spans + span;
    for (int i = lane; i < kSpan; i += 32) {
      if (trace.scores != nullptr) trace.scores[at * kSpan + i] = scores[i];
      if (trace.probabilities != nullptr) trace.probabilities[at * kSpan + i] = p[i];
    }
    if (trace.stats != nullptr && lane == 0) trace.stats[at] = {m2, sum2};
    __syncwarp();
  }
  if (lane >= 4) return;
  Bf16Bits* out = args.out + row.row * args.out_row_stride + row.head * args.out_head_stride;
  for (int n = 0; n < kHeadDim / 8; ++n) {
    for (int i = 0; i < 2; ++i) out[8 * n + 2 * lane + i] = to_bf16(normalised(o[n][i], inverse(sum)));
  }
}

}  // namespace

cudaError_t span_rows(const SpanArgs& args, const SpanRow* rows, std::int32_t num_rows, const SpanTrace& trace,
                      cudaStream_t stream) {
  if (num_rows == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(num_rows);
  return with_head_dim(args.layout.head_dim, [&](auto head_dim) {
    rows_kernel<decltype(head_dim)::value><<<blocks, 32, 0, stream>>>(args, rows, trace);
    return cudaGetLastError();
  });
}

}  // namespace mortise::cuda::reference
