#include "kernels/cuda/head_reduce.hpp"

#include <algorithm>

#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/logits.cuh"
#include "kernels/cuda/select.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kSelectThreads = 1024;

struct Partial {
  float max, sum;
};

__host__ __device__ std::int32_t num_slices(std::int32_t columns) {
  return (columns + kVocabSlice - 1) / kVocabSlice;
}

// The maximum and the sum of a slice. All threads compute exponentials; sixteen threads add the sixteen chains.
__global__ void __launch_bounds__(kThreads) slice_kernel(const HeadReduceArgs args, Partial* partials) {
  __shared__ float e[kVocabSlice];
  __shared__ float scratch[kThreads / 32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const int begin = static_cast<int>(blockIdx.x) * kVocabSlice;
  const int width = min(kVocabSlice, args.columns - begin), tid = static_cast<int>(threadIdx.x);
  const float* row = args.logits + static_cast<std::int64_t>(blockIdx.y) * args.stride + begin;
  float m = no_logit();
  for (int i = tid; i < width; i += kThreads) {
    e[i] = clean(row[i]);
    m = e[i] > m ? e[i] : m;
  }
  m = block_max<kThreads>(m, scratch);
  for (int i = tid; i < width; i += kThreads) e[i] = m == no_logit() ? 0.0f : exp(__fadd_rn(e[i], -m));
  __syncthreads();
  if (tid >= 32) return;
  float s = 0.0f;
#pragma unroll 16
  for (int i = tid % kLanes; i < width; i += kLanes) s = __fadd_rn(s, e[i]);
  s = tree_sum(s);
  if (tid == 0) partials[static_cast<std::int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = {m, s};
}

// Merges a row's slices from left to right into the state, and copies the target's logit.
__global__ void merge_kernel(const HeadReduceArgs args, const Partial* partials) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r >= args.rows) return;
  if (args.max != nullptr) {
    float m = args.first ? no_logit() : args.max[r], sum = args.first ? 0.0f : args.sum[r];
    const std::int32_t n = num_slices(args.columns);
    for (std::int32_t i = 0; i < n; ++i) {
      const Partial p = partials[r * n + i];
      if (p.max == no_logit()) continue;  // no logit in this slice; -infinity - -infinity would be NaN
      const float merged = m > p.max ? m : p.max;
      const float left = __fmul_rn(sum, exp(__fadd_rn(m, -merged)));
      const float right = __fmul_rn(p.sum, exp(__fadd_rn(p.max, -merged)));
      m = merged;
      sum = __fadd_rn(left, right);
    }
    args.max[r] = m;
    args.sum[r] = sum;
    if (args.lse != nullptr) args.lse[r] = __fadd_rn(m, log(sum));
  }
  if (args.targets == nullptr || args.target_logits == nullptr) return;
  if (args.ranks != nullptr) {
    if (args.first) args.ranks[r] = 0;
    return;
  }
  const std::int32_t target = args.targets[r];
  const std::int64_t column = static_cast<std::int64_t>(target) - args.vocab_begin;
  if (args.first) args.target_logits[r] = no_logit();
  if (target >= 0 && column >= 0 && column < args.columns) {
    args.target_logits[r] = clean(args.logits[r * args.stride + column]);
  }
}

// Counts the tokens of a slice that come before the target. Integers may be added in any order.
__global__ void __launch_bounds__(kThreads) rank_kernel(const HeadReduceArgs args) {
  __shared__ int scratch[kThreads / 32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.y;
  const std::int32_t target = args.targets[r];
  if (target < 0) return;
  const float t = args.target_logits[r];
  const int begin = static_cast<int>(blockIdx.x) * kVocabSlice, end = min(begin + kVocabSlice, args.columns);
  int count = 0;
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kThreads) {
    const float x = clean(args.logits[r * args.stride + i]);
    count += x > t || (x == t && args.vocab_begin + i < target);
  }
  count = block_sum<kThreads>(count, scratch);
  if (threadIdx.x == 0 && count > 0) atomicAdd(&args.ranks[r], count);
}

struct Candidate {
  std::uint32_t code, id;
};

// Merges the columns of this call into the first n tokens of each row: finds the cut, collects the tokens that it
// keeps, and places each token at the number of tokens before it.
__global__ void __launch_bounds__(kSelectThreads) top_kernel(const HeadReduceArgs args, Candidate* candidates) {
  __shared__ SelectScratch scratch;
  __shared__ float maxima[kSelectThreads / 32];
  __shared__ int taken;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  const int tid = static_cast<int>(threadIdx.x), n = args.top_n;
  const float* row = args.logits + r * args.stride;
  std::int32_t* ids = args.top_ids + r * n;
  float* logits = args.top_logits + r * n;
  Candidate* own = candidates + r * n;
  if (tid == 0) taken = 0;
  int before = 0;  // used entries of the state
  if (!args.first) {
    int low = 0, high = n;  // binary search: unused entries are at the end
    while (low < high) {
      const int middle = (low + high) / 2;
      ids[middle] >= 0 ? low = middle + 1 : high = middle;
    }
    before = low;
  }
  const auto tokens = [&](auto f) {
    for (int i = tid; i < before; i += kSelectThreads)
      f(descending_code(logits[i]), static_cast<std::uint32_t>(ids[i]), [] { return 1ull; });
    for (int i = tid; i < args.columns; i += kSelectThreads) {
      f(descending_code(clean(row[i])), static_cast<std::uint32_t>(args.vocab_begin + i), [] { return 1ull; });
    }
  };
  std::uint32_t first = descending_code(no_logit());  // the code of the largest logit
  tokens([&](std::uint32_t code, std::uint32_t, auto) { first = min(first, code); });
  const float largest = block_max<kSelectThreads>(logit_of_code(first), maxima);
  const auto need_of = [n](unsigned long long all) { return all > n ? static_cast<unsigned long long>(n) : 0ull; };
  const Cut cut = find_cut<kSelectThreads, true>(scratch, largest, need_of, tokens);
  __syncthreads();
  tokens([&](std::uint32_t code, std::uint32_t id, auto) {
    if (cut.keeps(code, id)) own[atomicAdd(&taken, 1)] = {code, id};
  });
  __syncthreads();
  const int count = taken;
  for (int i = tid; i < n; i += kSelectThreads) {
    if (i >= count) {
      ids[i] = -1;
      logits[i] = no_logit();
      continue;
    }
    const Candidate c = own[i];
    int place = 0;
    for (int j = 0; j < count; ++j) place += own[j].code < c.code || (own[j].code == c.code && own[j].id < c.id);
    ids[place] = static_cast<std::int32_t>(c.id);
    logits[place] = logit_of_code(c.code);
  }
}

std::size_t partial_bytes(std::int64_t rows, std::int32_t columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(num_slices(columns)) * sizeof(Partial);
}

}  // namespace

std::size_t head_reduce_scratch(std::int64_t rows, std::int32_t columns, std::int32_t top_n) {
  return partial_bytes(rows, columns) +
         static_cast<std::size_t>(rows) * static_cast<std::size_t>(top_n) * sizeof(Candidate);
}

cudaError_t launch_head_reduce(const HeadReduceArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  auto* const partials = static_cast<Partial*>(args.scratch);
  auto* const candidates =
      reinterpret_cast<Candidate*>(static_cast<std::byte*>(args.scratch) + partial_bytes(args.rows, args.columns));
  const auto rows = static_cast<unsigned>(args.rows), slices = static_cast<unsigned>(num_slices(args.columns));
  const dim3 all_slices(slices, rows);
  // Few rows, each a serial chain: one warp per block spreads them over the multiprocessors.
  constexpr unsigned kMergeThreads = 32;
  const unsigned merge_blocks = (rows + kMergeThreads - 1) / kMergeThreads;
  cudaError_t error = cudaSuccess;
  const auto then = [&](bool wanted, auto kernel, dim3 grid, int threads, const auto&... arguments) {
    if (wanted && error == cudaSuccess) error = launch_overlapped(kernel, grid, threads, 0, stream, arguments...);
  };
  then(args.max != nullptr && slices > 0, slice_kernel, all_slices, kThreads, args, partials);
  then(/*wanted=*/true, merge_kernel, merge_blocks, kMergeThreads, args, partials);
  then(args.ranks != nullptr && slices > 0, rank_kernel, all_slices, kThreads, args);
  then(args.top_n > 0, top_kernel, rows, kSelectThreads, args, candidates);
  return error;
}

}  // namespace mortise::cuda
