// plugins/kernels/cuda/head_reduce.hpp: log-sum-exp, target logit, rank and the first n tokens of rows of logits,
// without keeping the logits (docs/numerics.md, "Head reductions").
//   lse = log(sum_t exp(x[t])),  rank = number of tokens before the target,  x = clean(logits)
//   logits  f32 [rows, columns]: a slice of the vocabulary from vocab_begin on. Slices ascend; `first` starts the state
// Shapes: the fields of mortise_head_reduce_args, which the caller has checked.
// Order: as on the CPU: sums within slices of kVocabSlice columns, merged from left to right; counts have no order.
// Cost: memory bound; a few kernels, each of which reads the logits once.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: online softmax, arXiv:1805.02867.
// Oracle: kernels/cpu/reference/head_reduce.hpp, bitwise (tests/plugins/devices/cuda/head_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

// Columns of one partial sum, as on the CPU. Part of the specification.
constexpr std::int32_t kVocabSlice = 2048;

struct HeadReduceArgs {
  const float* logits;
  std::int64_t stride, rows;
  std::int32_t columns, vocab_begin;
  bool first;
  float *max, *sum, *lse;
  const std::int32_t* targets;
  float* target_logits;
  std::int32_t* ranks;
  std::int32_t top_n;
  std::int32_t* top_ids;
  float* top_logits;
  void* scratch;  // head_reduce_scratch() bytes, 8-byte aligned
};

std::size_t head_reduce_scratch(std::int64_t rows, std::int32_t columns, std::int32_t top_n);
cudaError_t launch_head_reduce(const HeadReduceArgs& args, cudaStream_t stream);

}  // namespace mortise::cuda
