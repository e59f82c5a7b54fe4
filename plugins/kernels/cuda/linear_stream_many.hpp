// plugins/kernels/cuda/linear_stream_many.hpp: the product of linear_stream.hpp, with the same bits, for nine or more
// rows, long ones, or few columns of y. Called by linear_stream.cu alone.
// Equation, Shapes, Order, REQUIRES, Source, Oracle: as linear_stream.hpp.
// Cost: reads the weights once, and x from the L2 while they pass.
// Errors: the cudaError_t of the launch. Launches on `stream`, never waits, allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

// REQUIRES: streams(args), at least one row and column. Starts at most `num_blocks` blocks; best is one per
// multiprocessor.
cudaError_t launch_linear_stream_many(const LinearArgs& args, int num_blocks, cudaStream_t stream);
cudaError_t prepare_stream_many_kernels();

}  // namespace mortise::cuda
