// linear_stream_many.hpp: the kernels of linear_stream.hpp for rows that do not all lie in shared memory: nine and
// more, or very long ones. For linear_stream.cu alone.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

// REQUIRES: streams(args), at least one row and column. At most `num_blocks` blocks, best one for each multiprocessor.
cudaError_t launch_linear_stream_many(const LinearArgs& args, int num_blocks, cudaStream_t stream);
cudaError_t prepare_stream_many_kernels();

}  // namespace mortise::cuda
