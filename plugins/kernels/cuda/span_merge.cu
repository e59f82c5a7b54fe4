// Merges the partials of tiles that several workers shared: from left to right, as if one had folded them.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_launch.cuh"
#include "kernels/cuda/span_math.cuh"
#include "kernels/cuda/span_mma.cuh"
#include "kernels/cuda/span_rows.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

// Partials that are merged at a time; a lane computes the weights of one.
constexpr int kBatch = 16;

// A row of the partials, from one partial of a tile to the next.
struct Row {
  const float* o;
  const float2* stats;
  std::int64_t stride;  // in rows

  __device__ Row(const SpanArgs& args, const SpanMerge& merge, int row, int head_dim)
      : o(args.partials + (std::int64_t{merge.partial} + row) * head_dim),
        stats(args.partial_stats + merge.partial + row),
        stride(merge.num_tokens * merge.num_heads) {}
};

__device__ __forceinline__ Bf16Bits* out_of(const SpanArgs& args, const SpanMerge& merge, int row) {
  const int token = row / merge.num_heads, head = row % merge.num_heads;
  return args.out + (merge.row + token) * args.out_row_stride + (merge.head + head) * args.out_head_stride;
}

// (maximum, sum) of partial `i`. Beyond `count` there is a partial of nothing, which changes nothing.
__device__ __forceinline__ float2 stats_at(const Row& row, int i, int count) {
  return i < count ? row.stats[i * row.stride] : float2{-infinity(), 0.0f};
}

// What is to the left of each partial is known from the maxima alone, so that the weights of `kCount` are computed side
// by side: (left, right, sum of the partial), by partial. `m`: the maximum before them, then that behind them.
template <int kCount>
__device__ __forceinline__ void put_weights(float2 stats, int lane, float& m, float4* weights) {
  float largest = larger(m, stats.x);  // of this lane's partial and all before it
#pragma unroll
  for (int distance = 1; distance < kCount; distance *= 2) {
    const float before = __shfl_up_sync(kWarp, largest, distance);
    if (lane >= distance) largest = larger(largest, before);
  }
  const float before = __shfl_up_sync(kWarp, largest, 1);
  const Weights w = merge_weights(lane == 0 ? m : before, stats.x);
  __syncwarp();
  weights[lane] = {w.left, w.right, stats.y, 0.0f};
  __syncwarp();
  m = __shfl_sync(kWarp, largest, kCount - 1);
}

// Few partials: a row is a warp's, kHeadDim / 32 columns a lane. A batch is on its way at once.
template <int kHeadDim>
__device__ __forceinline__ void merge_few(const SpanArgs& args, const SpanMerge& merge, int index, float4* weights) {
  constexpr int kColumns = kHeadDim / 32, kFew = 16;
  struct alignas(kColumns * 4) Columns {
    float at[kColumns];
  };
  const int lane = threadIdx.x % 32;
  const Row row(args, merge, index, kHeadDim);
  float m = -infinity(), sum = 0.0f;
  Columns result{};
#pragma unroll 1
  for (int begin = 0; begin < merge.count; begin += kFew) {
    Columns o[kFew];
#pragma unroll
    for (int i = 0; i < kFew; ++i) {
      const float* const from = row.o + (begin + i) * row.stride * kHeadDim + lane * kColumns;
      o[i] = begin + i < merge.count ? *reinterpret_cast<const Columns*>(from) : Columns{};
    }
    put_weights<kFew>(stats_at(row, begin + lane, lane < kFew ? merge.count : 0), lane, m, weights);
#pragma unroll
    for (int i = 0; i < kFew; ++i) {
      const float4 at = weights[i];
      const Weights w = {0.0f, at.x, at.y};
      sum = merged(sum, at.z, w);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) result.at[c] = merged(result.at[c], o[i].at[c], w);
    }
  }
  Bf16Bits* const out = out_of(args, merge, index) + lane * kColumns;
#pragma unroll
  for (int c = 0; c < kColumns; c += 2) store_pair(out + c, result.at[c], result.at[c + 1], sum);
}

// Many: a row is a block's, one column a thread; the warps do not wait for each other. What is left of the chain is one
// product and one fma a partial, and the next two batches are on their way meanwhile.
template <int kHeadDim>
__device__ __forceinline__ void merge_many(const SpanArgs& args, const SpanMerge& merge, int index, float4* weights) {
  const int column = threadIdx.x, lane = threadIdx.x % 32;
  const Row row(args, merge, index, kHeadDim);
  struct Batch {
    float o[kBatch];
    float2 stats;
  };
  const auto load = [&](int begin, Batch& batch) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      batch.o[i] = begin + i < merge.count ? row.o[(begin + i) * row.stride * kHeadDim + column] : 0.0f;
    }
    batch.stats = stats_at(row, begin + lane, merge.count);
  };
  float m = -infinity(), sum = 0.0f, result = 0.0f;
  Batch next, next_but_one;
  load(0, next);
  load(kBatch, next_but_one);
#pragma unroll 1
  for (int begin = 0; begin < merge.count; begin += kBatch) {
    const Batch batch = next;
    next = next_but_one;
    load(begin + 2 * kBatch, next_but_one);
    put_weights<kBatch>(batch.stats, lane, m, weights);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float4 at = weights[i];
      const Weights w = {0.0f, at.x, at.y};
      sum = merged(sum, at.z, w);
      result = merged(result, batch.o[i], w);
    }
  }
  out_of(args, merge, index)[column] = to_bf16(quotient(result, sum));
}

// Of a bucket all launches are alike, so the blocks share whatever merges there are: first the first rows of all
// merges, then the second rows: most merges have few. Where few partials merge, a block has as many rows as warps.
template <int kHeadDim>
__global__ void __launch_bounds__(kHeadDim, 512 / kHeadDim)  // registers for four blocks of 128 on a multiprocessor
    merge_kernel(const __grid_constant__ SpanArgs args, const SpanMerge* merges, const SpanMergeCounts* counts) {
  constexpr int kWarps = kHeadDim / 32;
  __shared__ float4 weights[kWarps][32];
  const SpanMergeCounts n = *counts;
  const int all = n.merges * (n.of_many > 0 ? kDecodeRows : kDecodeRows / kWarps), warp = threadIdx.x / 32;
  let_next_kernel_begin();
  wait_for_kernel_before();
  for (int i = blockIdx.x; i < all; i += gridDim.x) {
    const SpanMerge merge = merges[i % n.merges];
    const int round = i / n.merges, num_rows = merge.num_tokens * merge.num_heads;
    if (merge.count > kFewPartials) {
      if (round < num_rows) merge_many<kHeadDim>(args, merge, round, weights[warp]);
    } else {
      const int row = round * kWarps + warp;
      if (row < num_rows) merge_few<kHeadDim>(args, merge, row, weights[warp]);
    }
  }
}

}  // namespace

cudaError_t span_merge(const SpanArgs& args, const SpanMerge* merges, const SpanMergeCounts* counts,
                       std::int32_t num_blocks, cudaStream_t stream) {
  const auto kernel = args.layout.head_dim == 128 ? merge_kernel<128> : merge_kernel<64>;
  return launch_overlapped(kernel, num_blocks, args.layout.head_dim, 0, stream, args, merges, counts);
}

}  // namespace mortise::cuda
