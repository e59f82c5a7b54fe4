// plugins/kernels/cuda/linear_int4_widened.hpp: a product with 4-bit weights in groups for up to 32 rows: loads and
// widens weights while the preceding kernel still runs.
//   y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n]))     docs/numerics.md, "Quantised linear"
// Shapes: LinearIntArgs, m <= 32, 4 bits, groups of 32, 64 or 128, any k. Two kernels: the first writes q and sx of the
// rows of x to the workspace, the second multiplies.
// Order: exact integer sums in any order; groups ascending, in f32, by one thread for each element of y.
// Cost: memory bound; every block reads q from the L2, once for each of its tiles.
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

// Whether this kernel takes the product.
bool widens_int4(const LinearIntArgs& args);

// Bytes of `workspace`, 256-byte aligned.
std::uint64_t widened_int4_workspace_bytes(const LinearIntArgs& args);
// REQUIRES: widens_int4(args).
cudaError_t launch_linear_int4_widened(const LinearIntArgs& args, void* workspace, cudaStream_t stream);

cudaError_t prepare_int4_widened_kernels();  // once, before any launch

}  // namespace mortise::cuda
