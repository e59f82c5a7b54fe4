// plugins/kernels/cuda/linear_int_stream.hpp: a product with quantised weights for up to sixteen rows of x, as fast as
// the weights can be read. Like linear_stream.hpp it starts to load them before the preceding kernels have ended.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, m <= 16, groups of 32, 64, 128 or a whole row, any k whose rows fit into shared memory.
// Order: exact integer sums in any order; groups ascending, in f32. Warps may divide the groups of a row; one of them
// then adds all terms in ascending order. With one row of x every block computes q and sx itself; with more, another
// kernel writes them to the workspace.
// Cost: reads every weight once, n * k * bits / 8 bytes, and 5 bytes per group and row of w; every block reads x from
// the L2.
// REQUIRES: no kernel that may still run writes w, order or bias, because they are read before the preceding kernels
// have ended.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: GPTQ, arXiv:2210.17323, and AWQ, arXiv:2306.00978 (formats of 4-bit checkpoints); PTX ISA, mma.sync.m16n8k32.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise (tests/plugins/devices/cuda/int_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// Whether this kernel takes the product: at most sixteen rows that fit into shared memory beside pieces of weights, and
// it is faster than linear_int_wide.
bool streams_int(const LinearIntArgs& args);

// Bytes of `workspace`, 256-byte aligned; with 0 bytes it may be null.
std::uint64_t stream_int_workspace_bytes(const LinearIntArgs& args);
// REQUIRES: streams_int(args).
cudaError_t launch_linear_int_stream(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

cudaError_t prepare_int_stream_kernels();  // once, before any launch

}  // namespace mortise::cuda
