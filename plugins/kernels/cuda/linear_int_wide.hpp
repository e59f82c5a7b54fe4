// linear_int_wide.hpp: a product with quantised weights for any number of rows, on wgmma; what many rows take.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, any m and k. Two kernels: rows of x become q and sx in the workspace, then the product.
// Order: exact integer sums in any order; groups ascending, in f32, by one thread for each element of y.
// Cost: 2 m n k operations on bytes; per group and element of y a conversion, a product and a sum. Of many rows on an
// H100, beside bf16: one group a row with 8 bits 1.25 times as fast, groups of 128 0.85, of 64 0.65.
// REQUIRES: w, order and bias were written by no kernel that may still run: they are read before those have ended.
// Launches on `stream`, never waits, allocates nothing.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// Of `workspace`, 256-byte aligned.
std::uint64_t wide_int_workspace_bytes(const LinearIntArgs& args);
cudaError_t launch_linear_int_wide(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

cudaError_t prepare_int_wide_kernels();  // once, before anything is launched

}  // namespace mortise::cuda
