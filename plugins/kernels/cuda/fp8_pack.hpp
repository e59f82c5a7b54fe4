// plugins/kernels/cuda/fp8_pack.hpp: quantises float weights to E4M3 on the GPU, and packs E4M3 weights into the order
// of fp8_weight.hpp. In between they are "plain": values u8 [n, k], scales f32 [n, groups], row-major.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_weight.hpp"
#include "kernels/cuda/int_pack.hpp"

namespace mortise::cuda {

struct PlainFp8Weight {
  std::uint8_t* values;
  float* scales;
};

// Quantises rows of weights, each with one scale (docs/numerics.md, "Linear with FP8 weights", "Weights made FP8 at
// load").
//   a = max |w|;  scale = a / 448;  value = the E4M3 number nearest to w * (448 / a), ties to the even mantissa
//   a < 2^-117: scale = 0 and all values 0.  A weight is NaN or infinite: scale = NaN and all values 0.
//   rows  [num_rows, k] of `type`, dense; written to rows first_row .. first_row + num_rows - 1 of `to`
// Order: maxima have none; each division, product and rounding is one operation.
// Cost: memory bound, reads each row twice, the second time mostly from the L2.
// Source: OCP 8-bit Floating Point Specification, E4M3.
// Oracle: kernels/cpu/reference/linear_fp8.hpp, bitwise (tests/plugins/devices/cuda/fp8_weights_test.cpp).
cudaError_t launch_quantize_fp8(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                std::int64_t k, const PlainFp8Weight& to, cudaStream_t stream);

// Packs a plain weight: copies values and scales to the places of Fp8Layout. Writes all Fp8Layout(format).bytes of
// `to`. Order: elements are independent. Cost: memory bound, reads the plain weight once and writes the packed weight
// once. Oracle: as above; the products that read the packed weight are compared.
cudaError_t launch_pack_fp8(const PlainFp8Weight& from, const Fp8Format& format, std::byte* to, cudaStream_t stream);

}  // namespace mortise::cuda
