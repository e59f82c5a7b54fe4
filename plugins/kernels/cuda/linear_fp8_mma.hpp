// plugins/kernels/cuda/linear_fp8_mma.hpp: a product with E4M3 weights for any number of rows, without wgmma and TMA:
// for GPUs of compute capability 8. Weights are widened to bf16 in registers, also on 8.9, which has FP8 instructions.
//   y[m,n] = round(sum_g d[m,n,g] * scale[n,g] (+ bias[n]))       docs/numerics.md, "Linear with FP8 weights"
// Shapes: LinearFp8Args, any m and k.
// Order: d from 0, steps of sixteen k; groups ascending, fma with the scale, by one thread for each element of y.
// Cost: up to 16 rows read and widen the weights once. More rows do so once for every 64 rows.
// REQUIRES: x is 16-byte aligned and its stride a multiple of 8.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, mma.sync.m16n8k16; OCP 8-bit Floating Point Specification, E4M3. Oracle: reference/linear_fp8.hpp,
// bitwise (tests/plugins/devices/cuda/fp8_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_weight.hpp"

namespace mortise::cuda {

cudaError_t launch_linear_fp8_mma(const LinearFp8Args& args, cudaStream_t stream);

}  // namespace mortise::cuda
