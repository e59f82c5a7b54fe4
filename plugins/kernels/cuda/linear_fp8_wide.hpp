// plugins/kernels/cuda/linear_fp8_wide.hpp: a product with E4M3 weights for any number of rows, on wgmma. Used for more
// rows than kMaxFp8WidenedRows, up to those of linear_fp8_many.hpp.
//   y[m,n] = round(sum_g d[m,n,g] * scale[n,g] (+ bias[n]))       docs/numerics.md, "Linear with FP8 weights"
// Shapes: LinearFp8Args, any m and k.
// Order: d from 0, steps of sixteen k, which wgmma adds as mma.sync does; groups ascending, fma with the scale, by one
// thread for each element of y.
// Cost: 2 m n k operations in bf16. Each block widens the weights of its tile, so they are widened once for 128 rows,
// or 256 with one scale a row and many rows.
// REQUIRES: as linear_fp8_stream.hpp.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, wgmma; OCP 8-bit Floating Point Specification, E4M3. Oracle: reference/linear_fp8.hpp, bitwise
// (tests/plugins/devices/cuda/fp8_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_weight.hpp"

namespace mortise::cuda {

cudaError_t launch_linear_fp8_wide(const LinearFp8Args& args, cudaStream_t stream);

cudaError_t prepare_fp8_wide_kernels();  // once, before any launch

}  // namespace mortise::cuda
