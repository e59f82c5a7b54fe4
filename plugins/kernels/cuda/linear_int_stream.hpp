// linear_int_stream.hpp: a product with quantised weights for up to sixteen rows of x, where the time is that of
// reading the weights. As linear_stream.hpp it begins to load them before the kernels before it have ended.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, m <= 16, groups of 32, 64, 128 or a whole row, any k whose rows fit into shared memory. Of one
// row every block makes q and sx itself; of more, another kernel makes them in the workspace. Order: exact integer sums
// in any order; groups ascending, in f32. Warps may share a row's groups, whose terms one of them adds in their order.
// Cost: every weight once, n * k * bits / 8 bytes and 5 a group and row; x from the L2 in every block.
// REQUIRES: w, order and bias were written by no kernel that may still run: they are read before those have ended.
// Launches on `stream`, never waits, allocates nothing.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// Whether this kernel takes the product: at most sixteen rows, which fit into shared memory beside weights on their
// way, and it is the faster one.
bool streams_int(const LinearIntArgs& args);

// Of `workspace`, 256-byte aligned; 0: it may be null.
std::uint64_t stream_int_workspace_bytes(const LinearIntArgs& args);
// REQUIRES: streams_int(args).
cudaError_t launch_linear_int_stream(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

cudaError_t prepare_int_stream_kernels();  // once, before anything is launched

}  // namespace mortise::cuda
