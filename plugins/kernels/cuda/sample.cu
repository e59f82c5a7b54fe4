// Rows are of three kinds. Greedy rows need the largest prepared logit. Direct rows, without filters and without a log
// probability, are drawn in one pass over the logits. Filtered rows need four passes: prepare (edits, allowed set,
// temperature, the largest logit), filter (where min_p, top_k and top_p cut the row), draw (the arg max of logit +
// noise over the tokens left) and finish. The pass of greedy and direct rows is part of prepare_kernel. Maxima and
// integer sums have no order, so blocks combine them with atomics. For small vocabularies one kernel does it all
// (sample_small.cu).
#include "kernels/cuda/sample.hpp"

#include <algorithm>

#include "kernels/cuda/draw_row.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/logits.cuh"
#include "kernels/cuda/sample_row.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kFilterThreads = 1024;
constexpr int kBlocks = 5;                // of kThreads, on a multiprocessor at least
constexpr int kEach = 8;                  // tokens of a thread at a time
constexpr int kSlice = kThreads * kEach;  // columns of a block at a time; the bits do not depend on it

struct RowState {
  unsigned long long largest;  // packed_best of the prepared row
  unsigned long long best;     // packed_best of the scores
  Filtered filtered;
};

struct Scratch {
  RowState* states;  // [rows]
  float* rows;       // [rows, vocab_size]
};

__host__ __device__ std::size_t state_bytes(std::int64_t rows) {
  return (static_cast<std::size_t>(rows) * sizeof(RowState) + 15) / 16 * 16;
}
__host__ __device__ Scratch scratch_of(const SampleArgs& args) {
  auto* const base = static_cast<std::byte*>(args.scratch);
  return {reinterpret_cast<RowState*>(base), reinterpret_cast<float*>(base + state_bytes(args.rows))};
}

__global__ void begin_kernel(const SampleArgs args) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r < args.rows) scratch_of(args).states[r] = {0, 0, {}};
}

struct RowPlan {
  bool has_filters, has_edits;
};

// Branches only after all reads, so that the block waits for memory once.
__device__ RowPlan plan_of(const SampleArgs& args, std::int64_t r) {
  const float min_p = args.min_ps[r], top_p = args.top_ps[r];
  const int k = args.top_ks[r], num_edits = args.edit_begins == nullptr ? 0 : args.edit_counts[r];
  const int by_k = static_cast<int>(k > 0) & static_cast<int>(k < args.vocab_size);
  const int filters = static_cast<int>(min_p > 0.0f) | static_cast<int>(top_p < 1.0f) | by_k;
  return {filters != 0, num_edits > 0};
}

// The columns of a row that a block works on.
struct Columns {
  int begin, end;
};
__device__ Columns columns_of_block(const SampleArgs& args, int width) {
  const int begin = static_cast<int>(blockIdx.y) * width;
  return {begin, min(begin + width, args.vocab_size)};
}

// Calls f(begin, end, from) for each slice of the columns; from[id] is the edited logit of the tokens [begin, end), and
// -infinity if the token is not allowed.
template <class F>
__device__ __forceinline__ void each_slice(const SampleArgs& args, std::int64_t r, const Preparation& preparation,
                                           bool edits, Columns columns, float* edited, F f) {
  const int tid = static_cast<int>(threadIdx.x);
  const float* const row = args.logits + r * args.stride;
  for (int begin = columns.begin; begin < columns.end; begin += kSlice) {
    const int end = min(begin + kSlice, columns.end);
    if (!edits && preparation.allows_all()) {
      f(begin, end, row);
      continue;
    }
    __syncthreads();  // the slice before may still be in use
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = tid + j * kThreads;
      if (begin + i < end) edited[i] = row[begin + i];
    }
    __syncthreads();
    if (edits) apply_edits<kThreads>(args, r, begin, end - begin, edited);
    __syncthreads();
    for (int i = tid; i < end - begin; i += kThreads) {
      if (!preparation.allows(begin + i)) edited[i] = no_logit();
    }
    __syncthreads();
    f(begin, end, edited - begin);
  }
}

// Draws a direct row's best token of the columns.
__device__ __forceinline__ void draw_direct(const SampleArgs& args, std::int64_t r, const Preparation& preparation,
                                            bool edits, Columns columns, RowState& state, float* edited,
                                            DrawScratch<kThreads>& scratch) {
  const Drawer drawer(args, r, {{kLastCode, kLastId}, no_logit(), 0});
  // Blocks of this row that have ended already have left their best token.
  if (threadIdx.x == 0) scratch.best = *static_cast<volatile unsigned long long*>(&state.best);
  __syncthreads();
  each_slice(args, r, preparation, edits, columns, edited, [&](int begin, int end, const float* from) {
    draw_part<kThreads, kEach>(
        drawer, begin, end, begin == columns.begin, scratch, [&](int id) { return preparation.at_most(from[id]); },
        [&](int id) { return preparation.of_allowed(from[id]); });
  });
  __syncthreads();
  if (threadIdx.x == 0 && scratch.best != 0) atomicMax(&state.best, scratch.best);
}

// A block works on `width` columns. blockIdx.x is the row, so that blocks that start together are of many rows, and
// later ones of a row know a score.
__global__ void __launch_bounds__(kThreads, kBlocks) prepare_kernel(const SampleArgs args, int width) {
  __shared__ float edited[kSlice];
  __shared__ union {
    unsigned long long warps[kThreads / 32];
    DrawScratch<kThreads> draw;
  } scratch;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  RowState& state = scratch_of(args).states[r];
  const Columns columns = columns_of_block(args, width);
  const RowPlan plan = plan_of(args, r);
  const Preparation preparation(args, r);
  const bool is_greedy = preparation.is_greedy();
  if (!is_greedy && !plan.has_filters && args.logprobs == nullptr && preparation.has_bound()) {
    draw_direct(args, r, preparation, plan.has_edits, columns, state, edited, scratch.draw);
    return;
  }
  float* const out = scratch_of(args).rows + r * args.vocab_size;
  float largest = no_logit();
  int largest_id = 0;
  each_slice(args, r, preparation, plan.has_edits, columns, edited, [&](int begin, int end, const float* from) {
    const int own = begin + static_cast<int>(threadIdx.x);
    float x[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int id = own + j * kThreads;
      x[j] = id < end ? from[id] : no_logit();
    }
    preparation.of_allowed(x);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int id = own + j * kThreads;
      if (!is_greedy && id < end) out[id] = x[j];
      largest_id = x[j] > largest ? id : largest_id;  // ids ascend, so the lowest of equal logits stays
      largest = fmaxf(x[j], largest);
    }
  });
  unsigned long long best = largest > no_logit() ? packed_best(largest, largest_id) : 0;
  best = block_max<kThreads>(best, scratch.warps);
  if (threadIdx.x == 0 && best != 0) atomicMax(&state.largest, best);
}

// Finds where the filters cut a row; one block per row. For a row without filters it only computes the total weight, if
// that is wanted. The largest logit is always kept; its score is the first that the other tokens have to reach.
__global__ void __launch_bounds__(kFilterThreads) filter_kernel(const SampleArgs args) {
  __shared__ SelectScratch scratch;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  RowState& state = scratch_of(args).states[r];
  if (greedy(args, r) || state.largest == 0) return;  // 0: direct, or no token can be drawn
  const float* row = scratch_of(args).rows + r * args.vocab_size;
  const float largest = score_of_best(state.largest);
  const Filtered filtered = filter_row<kFilterThreads>(args, r, row, largest, scratch);
  if (threadIdx.x != 0) return;
  state.filtered = filtered;
  state.best = Drawer(args, r, filtered).offer(largest, id_of_best(state.largest));
}

__global__ void __launch_bounds__(kThreads, kBlocks) draw_kernel(const SampleArgs args, int width) {
  __shared__ DrawScratch<kThreads> scratch;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  RowState& state = scratch_of(args).states[r];
  if (greedy(args, r) || state.largest == 0) return;
  const Drawer drawer(args, r, state.filtered);
  const Columns columns = columns_of_block(args, width);
  const float* const row = scratch_of(args).rows + r * args.vocab_size;
  if (threadIdx.x == 0) scratch.best = *static_cast<volatile unsigned long long*>(&state.best);
  __syncthreads();
  const auto prepared = [&](int id) { return row[id]; };
  for (int begin = columns.begin; begin < columns.end; begin += kSlice) {
    draw_part<kThreads, kEach>(drawer, begin, min(begin + kSlice, columns.end), begin == columns.begin, scratch,
                               prepared, prepared);
  }
  __syncthreads();
  if (threadIdx.x == 0 && scratch.best != 0) atomicMax(&state.best, scratch.best);
}

__global__ void finish_kernel(const SampleArgs args) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r >= args.rows) return;
  const RowState& state = scratch_of(args).states[r];
  write_row(args, r, state.largest, state.best, state.filtered, scratch_of(args).rows + r * args.vocab_size);
}

__global__ void noise_kernel(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::int32_t n,
                             float* noise) {
  const std::int32_t i = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) noise[i] = gumbel(RowWords(key, position).word(first_id + i));
}

unsigned ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<unsigned>((a + b - 1) / b);
}

}  // namespace

std::size_t sample_scratch(std::int64_t rows, std::int32_t vocab_size) {
  if (vocab_size <= kSmallVocab) return 0;
  return state_bytes(rows) + static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab_size) * sizeof(float);
}

cudaError_t launch_sample(const SampleArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  if (args.vocab_size <= kSmallVocab) return launch_sample_small(args, stream);
  constexpr int kRowThreads = 64;
  const unsigned row_blocks = ceil_div(args.rows, kRowThreads);
  // A block works on up to kMostSlices slices of a row, if the blocks are enough for a large GPU.
  constexpr std::int64_t kMostSlices = 4, kManyBlocks = 2048;
  const std::int64_t slices = ceil_div(args.vocab_size, kSlice);
  const auto each = static_cast<int>(std::clamp<std::int64_t>(args.rows * slices / kManyBlocks, 1, kMostSlices));
  const int width = each * kSlice;
  const dim3 parts(static_cast<unsigned>(args.rows), ceil_div(slices, each));
  for (const cudaError_t error :
       {launch_overlapped(begin_kernel, row_blocks, kRowThreads, 0, stream, args),
        launch_overlapped(prepare_kernel, parts, kThreads, 0, stream, args, width),
        launch_overlapped(filter_kernel, static_cast<unsigned>(args.rows), kFilterThreads, 0, stream, args),
        launch_overlapped(draw_kernel, parts, kThreads, 0, stream, args, width),
        launch_overlapped(finish_kernel, row_blocks, kRowThreads, 0, stream, args)}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t launch_noise(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::int32_t n, float* noise,
                         cudaStream_t stream) {
  if (n <= 0) return cudaSuccess;
  noise_kernel<<<ceil_div(n, kThreads), kThreads, 0, stream>>>(key, position, first_id, n, noise);
  return cudaGetLastError();
}

}  // namespace mortise::cuda
