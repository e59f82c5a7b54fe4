// Merges the partials of tiles that several workers shared: from left to right, as if one had folded them.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_math.cuh"
#include "kernels/cuda/span_mma.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

constexpr int kBatch = 32;  // partials that are merged at a time: a lane computes the weights of one

// O of the batch's partials at one column, and (maximum, sum) of partial `lane`. Beyond `count` there is a partial of
// nothing, which changes nothing.
struct Batch {
  float o[kBatch];
  float2 stats;
};

__device__ __forceinline__ void load_batch(const float* o, std::int64_t o_stride, const float2* stats, int stats_stride,
                                           int begin, int count, int lane, Batch& batch) {
#pragma unroll
  for (int i = 0; i < kBatch; ++i) batch.o[i] = begin + i < count ? o[(begin + i) * o_stride] : 0.0f;
  batch.stats = {-infinity(), 0.0f};
  if (begin + lane < count) batch.stats = stats[static_cast<std::int64_t>(begin + lane) * stats_stride];
}

// One row a block, one column a thread; the warps do not wait for each other. What is to the left of each partial is
// known from the maxima alone, so that the weights of a batch are computed side by side: what is left of the chain is
// one product and one fma a partial. The next batch is on its way meanwhile.
template <int kHeadDim>
__device__ void merge_row(const SpanArgs& args, const SpanMerge& merge, int row, float4* weights) {
  const int column = threadIdx.x, lane = threadIdx.x % 32, num_rows = merge.num_tokens * merge.num_heads;
  const std::int64_t first = merge.partial + row, stride = static_cast<std::int64_t>(num_rows) * kHeadDim;
  const float* partials = args.partials + first * kHeadDim + column;
  const float2* stats = args.partial_stats + first;
  float m = -infinity(), sum = 0.0f, o = 0.0f;
  Batch next;
  load_batch(partials, stride, stats, num_rows, 0, merge.count, lane, next);
#pragma unroll 1
  for (int begin = 0; begin < merge.count; begin += kBatch) {
    const Batch batch = next;
    load_batch(partials, stride, stats, num_rows, begin + kBatch, merge.count, lane, next);
    float largest = larger(m, batch.stats.x);  // of this lane's partial and all before it
#pragma unroll
    for (int distance = 1; distance < kBatch; distance *= 2) {
      const float before = __shfl_up_sync(kWarp, largest, distance);
      if (lane >= distance) largest = larger(largest, before);
    }
    const float before = __shfl_up_sync(kWarp, largest, 1);
    const Weights w = merge_weights(lane == 0 ? m : before, batch.stats.x);
    __syncwarp();
    weights[lane] = {w.left, w.right, batch.stats.y, 0.0f};
    __syncwarp();
    m = __shfl_sync(kWarp, largest, kBatch - 1);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float4 at = weights[i];
      const Weights wi = {0.0f, at.x, at.y};
      sum = merged(sum, at.z, wi);
      o = merged(o, batch.o[i], wi);
    }
  }
  const int token = row / merge.num_heads, head = row % merge.num_heads;
  args.out[(merge.row + token) * args.out_row_stride + (merge.head + head) * args.out_head_stride + column] =
      to_bf16(quotient(o, sum));
}

template <int kHeadDim>
__global__ void __launch_bounds__(kHeadDim)
    merge_kernel(const __grid_constant__ SpanArgs args, const SpanMerge* merges, const std::int32_t* num_merges) {
  __shared__ float4 weights[kHeadDim / 32][kBatch];
  const int all = *num_merges * kDecodeRows;
  for (int i = blockIdx.x; i < all; i += gridDim.x) {
    const SpanMerge merge = merges[i / kDecodeRows];
    const int row = i % kDecodeRows;
    if (row < merge.num_tokens * merge.num_heads) merge_row<kHeadDim>(args, merge, row, weights[threadIdx.x / 32]);
  }
}

}  // namespace

cudaError_t span_merge(const SpanArgs& args, const SpanMerge* merges, const std::int32_t* num_merges,
                       std::int32_t num_blocks, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(num_blocks);
  if (args.layout.head_dim == 128) {
    merge_kernel<128><<<blocks, 128, 0, stream>>>(args, merges, num_merges);
  } else {
    merge_kernel<64><<<blocks, 64, 0, stream>>>(args, merges, num_merges);
  }
  return cudaGetLastError();
}

}  // namespace mortise::cuda
