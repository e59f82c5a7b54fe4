// plugins/kernels/cuda/span_kernels.hpp: the two sets of attention kernels. They take the same lists and give the bits
// of reference/span.hpp on the same GPU.
#pragma once

#include "kernels/cuda/span.hpp"

namespace mortise::cuda {

// A set of functions with the contracts of span.hpp. A value.
struct SpanKernels {
  cudaError_t (*prepare_decode)(std::int32_t head_dim, SpanCache cache);
  cudaError_t (*prepare_prefill)(std::int32_t head_dim, SpanCache cache);
  cudaError_t (*decode)(const SpanArgs& args, const SpanWork& work, cudaStream_t stream);
  cudaError_t (*prefill)(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t num_blocks,
                         cudaStream_t stream);
};

// On wgmma and TMA: for compute capability 9.0.
const SpanKernels& hopper_span_kernels();
// On mma.sync and cp.async: for compute capability 8.0 and above.
const SpanKernels& mma_span_kernels();

}  // namespace mortise::cuda
