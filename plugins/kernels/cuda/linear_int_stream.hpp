// linear_int_stream.hpp: a product with quantised weights for up to eight rows of x, where the time is that of reading
// the weights. As linear_stream.hpp it begins to load them before the kernels before it have ended.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, m <= 8, any k whose rows fit into shared memory. Every block makes q and sx of all rows itself.
// Order: exact integer sums in any order; groups ascending, in f32, by one thread for each element of y.
// Cost: every weight once, n * k * bits / 8 bytes and 5 a group and row; x from the L2 in every block.
// REQUIRES: w, order and bias were written by no kernel that may still run: they are read before those have ended.
// Launches on `stream`, never waits, allocates nothing.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// Whether this kernel takes the product: at most eight rows, which fit into shared memory beside weights on their way.
bool streams_int(const LinearIntArgs& args);

// REQUIRES: streams_int(args).
cudaError_t launch_linear_int_stream(const LinearIntArgs& args, cudaStream_t stream);

cudaError_t prepare_int_stream_kernels();  // once, before anything is launched

}  // namespace mortise::cuda
