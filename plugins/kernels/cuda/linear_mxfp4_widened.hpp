// plugins/kernels/cuda/linear_mxfp4_widened.hpp: a product with MXFP4 weights, as fast as they can be read, for up to
// 64 rows at a time: loads and widens weights while the preceding kernel still runs.
//   y[m,n] = round(sum_k x[m,k] w[n,k] (+ bias[n]))       docs/numerics.md, "Linear with MXFP4 weights"
// Shapes: LinearMxfp4Args, any m and k.
// Order: that of linear_mma.hpp with the widened weights: from 0, steps of sixteen k.
// Cost: memory bound, or as long as the chain of k / 16 dependent instructions; reads and widens the weights once for
// kMxfp4WidenedRows rows; every block reads all of x from the L2, once for each of its tiles.
// REQUIRES: x is 16-byte aligned and its stride a multiple of 8. No kernel that may still run writes w or bias, because
// they are read before the preceding kernels have ended.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, wgmma.m64nNk16; OCP Microscaling Formats (MX) Specification 1.0, MXFP4. Oracle: the products of the
// widened weights, bitwise (tests/plugins/devices/cuda/mxfp4_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/mxfp4_weight.hpp"

namespace mortise::cuda {

constexpr std::int64_t kMxfp4WidenedRows = 64;  // of a launch; more rows take several

cudaError_t launch_linear_mxfp4_widened(const LinearMxfp4Args& args, cudaStream_t stream);

cudaError_t prepare_mxfp4_widened_kernels();  // once, before any launch

}  // namespace mortise::cuda
