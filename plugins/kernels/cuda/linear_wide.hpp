// plugins/kernels/cuda/linear_wide.hpp: products with E4M3 or MXFP4 weights for any number of rows, on wgmma. Used for
// more rows than linear_fp8_widened.hpp and linear_mxfp4_widened.hpp serve, up to those where widening all weights in
// memory first is faster.
//   y[m,n] = round(sum_g d[m,n,g] * scale[n,g] (+ bias[n]))       docs/numerics.md, "Linear with FP8 weights"
//   y[m,n] = round(sum_k x[m,k] w[n,k] (+ bias[n]))               docs/numerics.md, "Linear with MXFP4 weights"
// Shapes: LinearFp8Args, LinearMxfp4Args, any m and k.
// Order: d from 0, steps of sixteen k, which wgmma adds as mma.sync does; groups ascending, fma with the scale, by one
// thread for each element of y. With MXFP4 weights the same with the widened weights, as one group.
// Cost: 2 m n k operations in bf16. Each block widens the weights of its tile, so they are widened once for up to 256
// rows.
// REQUIRES: x is 16-byte aligned and its stride a multiple of 8. No kernel that may still run writes w, scales or bias,
// because they are read before the preceding kernels have ended.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, wgmma; OCP 8-bit Floating Point Specification, E4M3; OCP Microscaling Formats (MX)
// Specification 1.0. Oracle: reference/linear_fp8.hpp and reference/linear.hpp with the widened weights, bitwise
// (tests/plugins/devices/cuda/fp8_weights_test.cpp, mxfp4_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_weight.hpp"
#include "kernels/cuda/mxfp4_weight.hpp"

namespace mortise::cuda {

cudaError_t launch_linear_fp8_wide(const LinearFp8Args& args, cudaStream_t stream);
cudaError_t launch_linear_mxfp4_wide(const LinearMxfp4Args& args, cudaStream_t stream);

cudaError_t prepare_wide_kernels();  // once, before any launch

}  // namespace mortise::cuda
