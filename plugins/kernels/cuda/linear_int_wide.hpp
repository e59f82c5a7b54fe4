// plugins/kernels/cuda/linear_int_wide.hpp: a product with quantised weights for any number of rows, on wgmma. Used
// where no other kernel takes the product.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, any m and k. Two kernels: the first writes q and sx of the rows of x to the workspace, the
// second multiplies.
// Order: exact integer sums in any order; groups ascending, in f32, by one thread for each element of y.
// Cost: 2 m n k operations on bytes; per group and element of y a conversion, a product and a sum. Relative to bf16,
// for many rows on an H100: 1.25 times as fast with 8 bits and one group a row, 0.85 with groups of 128, 0.65 with
// groups of 64.
// REQUIRES: no kernel that may still run writes w, order or bias, because they are read before the preceding kernels
// have ended.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: GPTQ, arXiv:2210.17323, and AWQ, arXiv:2306.00978 (formats of 4-bit checkpoints); PTX ISA, wgmma.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise (tests/plugins/devices/cuda/int_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

// Bytes of `workspace`, 256-byte aligned.
std::uint64_t wide_int_workspace_bytes(const LinearIntArgs& args);
cudaError_t launch_linear_int_wide(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

cudaError_t prepare_int_wide_kernels();  // once, before any launch

}  // namespace mortise::cuda
