// plugins/kernels/cuda/linear_int4_stream.hpp: a product with 4-bit weights in groups for up to four rows, as fast as
// the weights can be read. It starts to load them before the preceding kernels have ended.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, 4 bits, groups of 64 or 128, m <= 4, any k whose rows fit into shared memory beside pieces of
// weights.
// Order: exact integer sums in any order; groups ascending, in f32, by one thread for each element of y.
// Cost: reads every weight once, n * k / 2 bytes, and 5 bytes per group and row of w; every block reads x from the L2.
// With one row each block computes q and sx itself; with more, another kernel writes them to the workspace.
// REQUIRES: no kernel that may still run writes w, because it is read before the preceding kernels have ended.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: GPTQ, arXiv:2210.17323, and AWQ, arXiv:2306.00978 (formats of 4-bit checkpoints); PTX ISA, mma.sync.m16n8k32.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise (tests/plugins/devices/cuda/int_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// Whether this kernel takes the product.
bool streams_int4(const LinearIntArgs& args);

// Bytes of `workspace`, 256-byte aligned; with 0 bytes it may be null.
std::uint64_t stream_int4_workspace_bytes(const LinearIntArgs& args);
// REQUIRES: streams_int4(args).
cudaError_t launch_linear_int4_stream(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

cudaError_t prepare_int4_stream_kernels();  // once, before any launch

}  // namespace mortise::cuda
