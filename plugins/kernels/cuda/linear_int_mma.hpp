// plugins/kernels/cuda/linear_int_mma.hpp: a product with quantised weights for any number of rows, without wgmma and
// TMA: for GPUs of compute capability 8.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))    docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, any m and k.
// Order: integer sums have none; one thread adds the groups of an element of y, ascending.
// Cost: reads the weights once for 8 rows, or for 64; q comes from a kernel that runs before.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, mma.sync.m16n8k32. Oracle: kernels/cpu/reference/linear_int.hpp, bitwise
// (tests/plugins/devices/cuda/int_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

std::uint64_t mma_int_workspace_bytes(const LinearIntArgs& args);
// `workspace`: that many bytes, 256-byte aligned.
cudaError_t launch_linear_int_mma(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

}  // namespace mortise::cuda
