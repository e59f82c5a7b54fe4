// head_reduce.hpp: what is taken from logits without keeping them (docs/numerics.md, "Head reductions"): log-sum-exp,
// the target's logit, ranks, the first n tokens. The fields are those of mortise_head_reduce_args, checked.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

// Columns of one partial sum, as on the CPU: part of the specification.
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
