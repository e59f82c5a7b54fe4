// plugins/kernels/cuda/linear_fp8_widened.hpp: a product with E4M3 weights for up to 64 rows: loads and widens weights
// while the preceding kernel still runs.
//   y[m,n] = round(sum_g d[m,n,g] * scale[n,g] (+ bias[n]))       docs/numerics.md, "Linear with FP8 weights"
// Shapes: LinearFp8Args, m up to kMaxFp8WidenedRows, any k.
// Order: d from 0, steps of sixteen k; groups ascending, fma with the scale, by one thread for each element of y.
// Cost: memory bound, or as long as the chain of k / 16 dependent instructions; every block reads all of x from the L2,
// once for each of its tiles.
// REQUIRES: x is 16-byte aligned and its stride a multiple of 8. No kernel that may still run writes w, scales or bias,
// because they are read before the preceding kernels have ended.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, wgmma.m64nNk16; OCP 8-bit Floating Point Specification, E4M3. Oracle: reference/linear_fp8.hpp,
// bitwise (tests/plugins/devices/cuda/fp8_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_weight.hpp"

namespace mortise::cuda {

constexpr std::int64_t kMaxFp8WidenedRows = 64;

cudaError_t launch_linear_fp8_widened(const LinearFp8Args& args, cudaStream_t stream);

cudaError_t prepare_fp8_widened_kernels();  // once, before any launch

}  // namespace mortise::cuda
