// plugins/kernels/cuda/mxfp4_pack.hpp: quantises float weights to MXFP4 on the GPU, packs MXFP4 weights into the order
// of mxfp4_weight.hpp, and widens packed weights to bf16. In between weights are "plain": values u8 [n, k], scales f32
// [n, ceil(k / 32)], row-major. Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_pack.hpp"
#include "kernels/cuda/mxfp4_weight.hpp"

namespace mortise::cuda {

struct PlainMxfp4Weight {
  std::uint8_t* values;
  float* scales;
};

// Quantises rows of weights in groups of 32 columns (docs/numerics.md, "Linear with MXFP4 weights", "Weights made MXFP4
// at load").
//   a = max |w|;  e = max(0, biased exponent of a - 2);  scale = 2^(e - 127)
//   value = the E2M1 number nearest to w / scale, ties to the even mantissa, at most 6 in magnitude; the sign of w
//   rows  [num_rows, k] of `type`, dense; written to rows first_row .. first_row + num_rows - 1 of `to`
//   first_odd  lowered to the first row with a weight that is NaN or infinite; that row's values are not specified
// Order: maxima have none; w / scale is exact but for results that round to 0.
// Cost: memory bound, reads each row once.
// Source: OCP Microscaling Formats (MX) Specification 1.0, 6.3.
// Oracle: kernels/cpu/reference/linear_mxfp4.hpp, bitwise (tests/plugins/devices/cuda/mxfp4_weights_test.cpp).
cudaError_t launch_quantize_mxfp4(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                  std::int64_t k, const PlainMxfp4Weight& to, unsigned long long* first_odd,
                                  cudaStream_t stream);

// Packs a plain weight. Writes all Mxfp4Layout(n, k).bytes of `to`. Order: elements are independent. Cost: memory
// bound, reads the plain weight once and writes the packed weight once. `largest` is raised to the largest
// biased exponent if that is above kMxfp4SmallExponent. Oracle: as above; the products that read the
// packed weight are compared. REQUIRES: scales are powers of two from 2^-127 to 2^125.
cudaError_t launch_pack_mxfp4(const PlainMxfp4Weight& from, std::int64_t n, std::int64_t k, std::byte* to,
                              unsigned* largest, cudaStream_t stream);

// Widens args.n rows of w from args.first_column on to bf16 [n, k], row-major without gaps, exactly. The other
// arguments are not read. Order: elements are independent. Cost: memory bound. Oracle: as above, by products.
// REQUIRES: `to` is 16-byte aligned.
cudaError_t launch_widen_mxfp4(const LinearMxfp4Args& args, std::uint16_t* to, cudaStream_t stream);

}  // namespace mortise::cuda
