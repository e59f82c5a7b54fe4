// plugins/kernels/cuda/linear_mxfp4_mma.hpp: a product with MXFP4 weights for any number of rows, without wgmma and
// TMA: for GPUs of compute capability 8. Weights are widened to bf16 in registers.
//   y[m,n] = round(sum_k x[m,k] w[n,k] (+ bias[n]))       docs/numerics.md, "Linear with MXFP4 weights"
// Shapes: LinearMxfp4Args, any m and k.
// Order: that of linear_mma.hpp with the widened weights: from 0, steps of sixteen k, by one thread for each element.
// Cost: reads the weights once for 16 rows, or for 64, and widens them as often.
// REQUIRES: x is 16-byte aligned and its stride a multiple of 8.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, mma.sync.m16n8k16; OCP Microscaling Formats (MX) Specification 1.0, MXFP4. Oracle: the products of
// the widened weights, bitwise (tests/plugins/devices/cuda/mxfp4_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/mxfp4_weight.hpp"

namespace mortise::cuda {

cudaError_t launch_linear_mxfp4_mma(const LinearMxfp4Args& args, cudaStream_t stream);

}  // namespace mortise::cuda
