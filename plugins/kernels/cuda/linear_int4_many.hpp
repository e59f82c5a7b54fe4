// plugins/kernels/cuda/linear_int4_many.hpp: a product with 4-bit weights in groups of 64 or 128 for more than 32 rows,
// on wgmma. The sums of one group are scaled and added while the next group is multiplied.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, 4 bits, groups of 64 or 128, usual scales, any m and k. Two kernels: the first writes q and sx
// of the rows of x to the workspace, the second multiplies.
// Order: exact integer sums in any order; groups ascending, in f32, by one thread for each element of y.
// Cost: 2 m n k operations on bytes and, to set accumulators, half as many with groups of 64, a quarter with 128; per
// group and element of y an fma and a sum. While the tensor cores multiply, little else is issued. Relative to bf16,
// for 8192 rows of an 8B model on an H100: 0.93 times as fast with groups of 64, 1.16 with groups of 128. Errors: the
// cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps. Launches on `stream`, never waits,
// allocates nothing. Source: GPTQ, arXiv:2210.17323, and AWQ, arXiv:2306.00978 (formats of 4-bit checkpoints); PTX ISA,
// wgmma. Oracle: kernels/cpu/reference/linear_int.hpp, bitwise (tests/plugins/devices/cuda/int_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// Whether this kernel takes the product.
bool is_many_int4(const LinearIntArgs& args);

// Bytes of `workspace`, 256-byte aligned.
std::uint64_t many_int4_workspace_bytes(const LinearIntArgs& args);
// REQUIRES: is_many_int4(args).
cudaError_t launch_linear_int4_many(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

cudaError_t prepare_int4_many_kernels();  // once, before any launch

}  // namespace mortise::cuda
