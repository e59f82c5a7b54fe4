// Merges the partials of tiles that several workers shared: from left to right, as if one had folded them.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_launch.cuh"
#include "kernels/cuda/span_math.cuh"
#include "kernels/cuda/span_mma.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

// Partials that are merged at a time; a lane computes the weights of one.
constexpr int kShort = 16, kLong = 32;

// O of the batch's partials at one column, and (maximum, sum) of partial `lane`. Beyond `count` there is a partial of
// nothing, which changes nothing.
template <int kBatch>
struct Batch {
  float o[kBatch];
  float2 stats;
};

template <int kBatch>
__device__ __forceinline__ void load_batch(const float* o, std::int64_t o_stride, const float2* stats, int stats_stride,
                                           int begin, int count, int lane, Batch<kBatch>& batch) {
#pragma unroll
  for (int i = 0; i < kBatch; ++i) batch.o[i] = begin + i < count ? o[(begin + i) * o_stride] : 0.0f;
  batch.stats = {-infinity(), 0.0f};
  if (lane < kBatch && begin + lane < count)
    batch.stats = stats[static_cast<std::int64_t>(begin + lane) * stats_stride];
}

// One row a block, one column a thread; the warps do not wait for each other. What is to the left of each partial is
// known from the maxima alone, so that the weights of a batch are computed side by side: what is left of the chain is
// one product and one fma a partial. The next batch is on its way meanwhile.
template <int kHeadDim, int kBatch>
__device__ __forceinline__ void merge_row(const SpanArgs& args, const SpanMerge& merge, int row, float4* weights) {
  const int column = threadIdx.x, lane = threadIdx.x % 32, num_rows = merge.num_tokens * merge.num_heads;
  const std::int64_t first = merge.partial + row, stride = static_cast<std::int64_t>(num_rows) * kHeadDim;
  const float* partials = args.partials + first * kHeadDim + column;
  const float2* stats = args.partial_stats + first;
  float m = -infinity(), sum = 0.0f, o = 0.0f;
  Batch<kBatch> next;
  load_batch(partials, stride, stats, num_rows, 0, merge.count, lane, next);
#pragma unroll 1
  for (int begin = 0; begin < merge.count; begin += kBatch) {
    const Batch<kBatch> batch = next;
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

// Of a bucket all launches are alike, so the blocks share whatever merges there are: first the first rows of all
// merges, then the second rows: most merges have few.
template <int kHeadDim>
__global__ void __launch_bounds__(kHeadDim)
    merge_kernel(const __grid_constant__ SpanArgs args, const SpanMerge* merges, const std::int32_t* num_merges) {
  __shared__ float4 weights[kHeadDim / 32][kLong];
  const int count = *num_merges, all = count * kDecodeRows;
  wait_for_kernel_before();
  for (int i = blockIdx.x; i < all; i += gridDim.x) {
    const SpanMerge merge = merges[i % count];
    const int row = i / count;
    if (row >= merge.num_tokens * merge.num_heads) continue;
    float4* const mine = weights[threadIdx.x / 32];
    if (merge.count <= kShort) {
      merge_row<kHeadDim, kShort>(args, merge, row, mine);
    } else {
      merge_row<kHeadDim, kLong>(args, merge, row, mine);
    }
  }
}

}  // namespace

cudaError_t span_merge(const SpanArgs& args, const SpanMerge* merges, const std::int32_t* num_merges,
                       std::int32_t num_blocks, cudaStream_t stream) {
  const auto kernel = args.layout.head_dim == 128 ? merge_kernel<128> : merge_kernel<64>;
  return launch_overlapped(kernel, num_blocks, args.layout.head_dim, 0, stream, args, merges, num_merges);
}

}  // namespace mortise::cuda
