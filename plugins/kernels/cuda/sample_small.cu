// Sampling for rows of logits that fit into a block's shared memory: one kernel calls the functions of sample_row.cuh
// and draw_row.cuh one after the other. A step of a small model then has one kernel instead of five.
#include "kernels/cuda/draw_row.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/logits.cuh"
#include "kernels/cuda/sample_row.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kEach = 4, kSlice = kThreads * kEach;  // tokens of a thread, and of the block, at a time

__global__ void __launch_bounds__(kThreads) sample_row_kernel(const SampleArgs args) {
  extern __shared__ float row[];  // [vocab_size]
  __shared__ SelectScratch scratch;
  __shared__ unsigned long long warps[kThreads / 32];
  __shared__ DrawScratch<kThreads> drawn;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  const int tid = static_cast<int>(threadIdx.x);
  const float* const logits = args.logits + r * args.stride;
#pragma unroll 8
  for (int id = tid; id < args.vocab_size; id += kThreads) row[id] = logits[id];
  __syncthreads();
  if (args.edit_begins != nullptr) {
    apply_edits<kThreads>(args, r, 0, args.vocab_size, row);
    __syncthreads();
  }
  const Preparation preparation(args, r);
  unsigned long long largest = 0;
  for (int id = tid; id < args.vocab_size; id += kThreads) {
    const float x = preparation.prepared(row[id], id);
    row[id] = x;  // no other thread reads it before block_max
    const unsigned long long own = x > no_logit() ? packed_best(x, id) : 0;
    largest = own > largest ? own : largest;
  }
  largest = block_max<kThreads>(largest, warps);
  unsigned long long best = 0;
  Filtered filtered = {};
  if (largest != 0 && !greedy(args, r)) {
    const float row_max = score_of_best(largest);
    filtered = filter_row<kThreads>(args, r, row, row_max, scratch);
    const Drawer drawer(args, r, filtered);
    // The largest logit is always kept; its score is the first that the other tokens have to reach.
    if (tid == 0) drawn.best = drawer.offer(row_max, id_of_best(largest));
    __syncthreads();
    const auto prepared = [](int id) { return row[id]; };
    for (int begin = 0; begin < args.vocab_size; begin += kSlice) {
      draw_part<kThreads, kEach>(drawer, begin, min(begin + kSlice, args.vocab_size), begin == 0, drawn, prepared,
                                 prepared);
    }
    __syncthreads();
    best = drawn.best;
  }
  if (tid == 0) write_row(args, r, largest, best, filtered, row);
}

}  // namespace

cudaError_t launch_sample_small(const SampleArgs& args, cudaStream_t stream) {
  return launch_overlapped(sample_row_kernel, static_cast<unsigned>(args.rows), kThreads,
                           static_cast<std::size_t>(args.vocab_size) * sizeof(float), stream, args);
}

}  // namespace mortise::cuda
