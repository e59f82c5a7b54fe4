// Merges the partials of tiles that several workers computed: from left to right, as if one worker had folded them.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_head_dim.hpp"
#include "kernels/cuda/span_math.cuh"
#include "kernels/cuda/span_mma.cuh"
#include "kernels/cuda/span_rows.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

constexpr int kWarps = 4;  // of a thread block; they work independently
// Partials that are merged at a time; each lane computes the factors of one.
constexpr int kFewAtATime = kPartialsOfAJob, kManyAtATime = 32;

// Locates a row in consecutive partials of a tile.
struct Rows {
  const float* o;
  const float2* stats;
  std::int64_t stride;  // in rows
  int count;

  __device__ Rows(const SpanArgs& args, const SpanMerge& merge, int first, int head_dim)
      : o(args.partials + (std::int64_t{merge.partial} + first) * head_dim),
        stats(args.partial_stats + merge.partial + first),
        stride(merge.num_tokens * merge.num_heads),
        count(merge.count) {}
  // Empty partials follow the last one; they change nothing.
  __device__ __forceinline__ float2 stats_at(int partial, int row) const {
    return partial < count ? stats[partial * stride + row] : float2{-infinity(), 0.0f};
  }
};

__device__ __forceinline__ Bf16Bits* out_of(const SpanArgs& args, const SpanMerge& merge, int row) {
  const int token = row / merge.num_heads, head = row - token * merge.num_heads;
  return args.out + (merge.row + token) * args.out_row_stride + (merge.head + head) * args.out_head_stride;
}

// Computes the factors of `count` partials (a power of two) at the same time, in lane groups of `count`. That is
// possible because the exponent before each partial depends on the other exponents only. Each lane writes (left, right,
// sum of its partial). `m` is the exponent before these partials, and on return the exponent after them.
__device__ __forceinline__ void put_factors(int count, float2 stats, int lane, float& m, float4* factors) {
  const int at = lane & (count - 1);
  float largest = larger(m, stats.x);  // of this lane's partial and all before it
#pragma unroll 1
  for (int distance = 1; distance < count; distance *= 2) {
    const float before = __shfl_up_sync(kWarp, largest, distance, count);
    if (at >= distance) largest = larger(largest, before);
  }
  const float before = __shfl_up_sync(kWarp, largest, 1, count);
  const MergeFactors w = merge_factors(at == 0 ? m : before, stats.x);
  __syncwarp();
  factors[lane] = {w.left, w.right, stats.y, 0.0f};
  __syncwarp();
  m = __shfl_sync(kWarp, largest, count - 1, count);
}

template <int kColumns>
struct alignas(kColumns * 4) Columns {
  float at[kColumns];
};

// Some columns of a row of the merged result so far.
template <int kColumns>
struct Merged {
  float sum = 0.0f;
  Columns<kColumns> o = {};

  __device__ __forceinline__ void add(const float4& factors, const Columns<kColumns>& right) {
    const MergeFactors w = {0.0f, factors.x, factors.y};
    sum = merged(sum, factors.z, w);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) o.at[c] = merged(o.at[c], right.at[c], w);
  }
};

// Merges few partials. A warp handles a slice of a row's columns, and each lane some of them. If a batch holds all
// partials of a row, 2 or 4 rows form a batch. There is one code for all numbers of rows: the decode kernel has evicted
// this code from the instruction cache, and three variants took 2 us longer.
template <int kHeadDim>
__device__ __forceinline__ void merge_few(const SpanArgs& args, const SpanMerge& merge, int job, float4* factors) {
  constexpr int kSlices = span_merge_slices(kHeadDim), kOfASlice = kHeadDim / kSlices;
  constexpr int kColumns = kOfASlice > 64 ? 4 : 2, kFourths = kFewAtATime / 4;  // columns of a lane
  const int lane = static_cast<int>(threadIdx.x) % 32, together = span_rows_of_a_job(merge.count);
  const int first = job / kSlices * together, column = job % kSlices * kOfASlice + lane * kColumns;
  const bool has_columns = lane * kColumns < kOfASlice;
  const int num_rows = min(together, merge.num_tokens * merge.num_heads - first);
  const int count = kFewAtATime / together, shift = 31 - __clz(count);  // partials of a row in a batch
  const Rows rows(args, merge, first, kHeadDim);
  float m = -infinity();
  Merged<kColumns> result, after[4];  // after each fourth of the batch
#pragma unroll 1
  for (int begin = 0; begin < merge.count; begin += count) {
    Columns<kColumns> o[kFewAtATime];
#pragma unroll
    for (int i = 0; i < kFewAtATime; ++i) {
      const int row = i >> shift, partial = begin + (i & (count - 1));
      const float* const from = rows.o + (partial * rows.stride + row) * kHeadDim + column;
      o[i] = has_columns && partial < merge.count && row < num_rows ? *reinterpret_cast<const Columns<kColumns>*>(from)
                                                                    : Columns<kColumns>{};
    }
    const int row = lane >> shift, partial = row < num_rows ? begin + (lane & (count - 1)) : merge.count;
    put_factors(count, rows.stats_at(partial, row), lane, m, factors);
#pragma unroll
    for (int fourth = 0; fourth < 4; ++fourth) {
      if (together > 1 && (fourth * kFourths & (count - 1)) == 0) result = {};  // the next row begins
#pragma unroll
      for (int i = fourth * kFourths; i < (fourth + 1) * kFourths; ++i) result.add(factors[i], o[i]);
      after[fourth] = result;
    }
  }
#pragma unroll 1
  for (int r = 0; r < num_rows; ++r) {
    const int last = (r + 1) * (4 / together) - 1;
    Merged<kColumns> row = after[0];
#pragma unroll
    for (int fourth = 1; fourth < 4; ++fourth) {
      if (fourth == last) row = after[fourth];
    }
    if (!has_columns) continue;
    Bf16Bits* const out = out_of(args, merge, first + r) + column;
    const float inverse_of_sum = inverse(row.sum);
#pragma unroll
    for (int c = 0; c < kColumns; c += 2) store_pair(out + c, row.o.at[c], row.o.at[c + 1], inverse_of_sum);
  }
}

// Merges many partials: 32 columns of a row, one per lane. The loads of the next batch are in flight meanwhile.
template <int kHeadDim>
__device__ __forceinline__ void merge_many(const SpanArgs& args, const SpanMerge& merge, int job, float4* factors) {
  constexpr int kSlices = (kHeadDim + 31) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, index = job / kSlices;
  const int column = job % kSlices * 32 + lane;
  const bool has_column = kHeadDim % 32 == 0 || column < kHeadDim;
  const Rows rows(args, merge, index, kHeadDim);
  struct Batch {
    Columns<1> o[kManyAtATime];
    float2 stats;
  };
  const auto load = [&](int begin, Batch& batch) {
    batch.stats = rows.stats_at(begin + lane, 0);
#pragma unroll
    for (int i = 0; i < kManyAtATime; ++i) {
      const bool real = has_column && begin + i < merge.count;
      batch.o[i].at[0] = real ? rows.o[(begin + i) * rows.stride * kHeadDim + column] : 0.0f;
    }
  };
  float m = -infinity();
  Merged<1> result;
  Batch next;
  load(0, next);
#pragma unroll 1
  for (int begin = 0; begin < merge.count; begin += kManyAtATime) {
    const Batch batch = next;
    load(begin + kManyAtATime, next);
    put_factors(kManyAtATime, batch.stats, lane, m, factors);
#pragma unroll
    for (int i = 0; i < kManyAtATime; ++i) result.add(factors[i], batch.o[i]);
  }
  if (has_column) out_of(args, merge, index)[column] = to_bf16(normalised(result.o.at[0], inverse(result.sum)));
}

// All launches of a bucket have the same size, so the warps divide the merges that this batch has: first the first warp
// of each block, then the second warps, so that a few jobs are spread over all multiprocessors.
template <int kHeadDim>
__global__ void __launch_bounds__(kWarps * 32, 4)  // registers for four blocks on a multiprocessor
    merge_kernel(const __grid_constant__ SpanArgs args, const SpanMerge* merges, const SpanMergeCounts* counts) {
  __shared__ float4 factors[kWarps][32];
  let_next_kernel_begin();
  // This data is not written by kernels, so it is read before the preceding kernels have ended, and for the next job
  // while this job is merged.
  const SpanMergeCounts n = *counts;
  const int all = n.merges * n.jobs, stride = kWarps * static_cast<int>(gridDim.x);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto merge_at = [&](int i) { return i < all ? merges[i % n.merges] : SpanMerge{}; };
  int i = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  SpanMerge next = merge_at(i);
  wait_for_kernel_before();
#pragma unroll 1
  for (; i < all; i += stride) {
    const SpanMerge merge = next;
    const int job = i / n.merges;
    next = merge_at(i + stride);
    if (job >= span_merge_jobs(merge, kHeadDim)) continue;
    if (merge.count > kFewPartials) {
      merge_many<kHeadDim>(args, merge, job, factors[warp]);
    } else {
      merge_few<kHeadDim>(args, merge, job, factors[warp]);
    }
  }
}

}  // namespace

cudaError_t span_merge(const SpanArgs& args, const SpanMerge* merges, const SpanMergeCounts* counts,
                       std::int32_t num_blocks, cudaStream_t stream) {
  return with_head_dim(args.layout.head_dim, [&](auto head_dim) {
    return launch_overlapped(merge_kernel<decltype(head_dim)::value>, num_blocks, kWarps * 32, 0, stream, args, merges,
                             counts);
  });
}

}  // namespace mortise::cuda
