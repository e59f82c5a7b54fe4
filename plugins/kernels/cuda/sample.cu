// Four passes: prepare (edits, allowed set, temperature, the largest logit of each row), filter (where min_p, top_k and
// top_p cut the row), draw (the arg max of logit + noise over the tokens left) and finish. Maxima and integer sums have
// no order, so blocks combine them with atomics. Greedy rows need only the first pass and the last. For small
// vocabularies one kernel does it all (sample_small.cu).
#include "kernels/cuda/sample.hpp"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/logits.cuh"
#include "kernels/cuda/sample_row.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kFilterThreads = 1024;
constexpr int kSlice = 2048;  // columns per block; the bits do not depend on it

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

__global__ void __launch_bounds__(kThreads) prepare_kernel(const SampleArgs args) {
  __shared__ float slice[kSlice];
  __shared__ unsigned long long warps[kThreads / 32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.y;
  const int begin = static_cast<int>(blockIdx.x) * kSlice, width = min(kSlice, args.vocab_size - begin);
  const float* row = args.logits + r * args.stride + begin;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) slice[i] = row[i];
  __syncthreads();
  if (args.edit_begins != nullptr) {
    apply_edits<kThreads>(args, r, begin, width, slice);
    __syncthreads();
  }
  const Preparation preparation(args, r);
  float* out = scratch_of(args).rows + r * args.vocab_size + begin;
  unsigned long long largest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    const int id = begin + i;
    const float x = preparation.prepared(slice[i], id);
    out[i] = x;
    const unsigned long long best = x > no_logit() ? packed_best(x, id) : 0;
    largest = best > largest ? best : largest;
  }
  largest = block_max<kThreads>(largest, warps);
  if (threadIdx.x == 0 && largest != 0) atomicMax(&scratch_of(args).states[r].largest, largest);
}

// Finds where the filters cut a row; one block per row. For a row without filters it only computes the total weight, if
// that is wanted.
__global__ void __launch_bounds__(kFilterThreads) filter_kernel(const SampleArgs args) {
  __shared__ SelectScratch scratch;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  RowState& state = scratch_of(args).states[r];
  if (greedy(args, r) || state.largest == 0) return;
  const float* row = scratch_of(args).rows + r * args.vocab_size;
  const Filtered filtered = filter_row<kFilterThreads>(args, r, row, score_of_best(state.largest), scratch);
  if (threadIdx.x == 0) state.filtered = filtered;
}

__global__ void __launch_bounds__(kThreads) draw_kernel(const SampleArgs args) {
  __shared__ unsigned long long warps[kThreads / 32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.y;
  const RowState& state = scratch_of(args).states[r];
  if (greedy(args, r) || state.largest == 0) return;
  const Drawer drawer(args, r, score_of_best(state.largest), state.filtered);
  const int begin = static_cast<int>(blockIdx.x) * kSlice, end = min(begin + kSlice, args.vocab_size);
  const float* row = scratch_of(args).rows + r * args.vocab_size;
  unsigned long long best = 0;
  for (int id = begin + static_cast<int>(threadIdx.x); id < end; id += kThreads) {
    const unsigned long long offered = drawer.offer(row[id], id);
    best = offered > best ? offered : best;
  }
  best = block_max<kThreads>(best, warps);
  if (threadIdx.x == 0 && best != 0) atomicMax(&scratch_of(args).states[r].best, best);
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
  if (i < n) noise[i] = gumbel(philox_first_word(key, position, first_id + i));
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
  const dim3 slices(ceil_div(args.vocab_size, kSlice), static_cast<unsigned>(args.rows));
  for (const cudaError_t error :
       {launch_overlapped(begin_kernel, row_blocks, kRowThreads, 0, stream, args),
        launch_overlapped(prepare_kernel, slices, kThreads, 0, stream, args),
        launch_overlapped(filter_kernel, static_cast<unsigned>(args.rows), kFilterThreads, 0, stream, args),
        launch_overlapped(draw_kernel, slices, kThreads, 0, stream, args),
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
