// plugins/kernels/cuda/fp8_pack.hpp: quantises float weights to E4M3 on the GPU, and packs E4M3 weights into the order
// of fp8_weight.hpp. In between they are "plain": values u8 [n, k], scales f32 [n, groups], row-major. Errors: the
// cudaError_t of the launch. Launches on `stream`, never waits, allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_weight.hpp"
#include "kernels/cuda/int_pack.hpp"

namespace mortise::cuda {

struct PlainFp8Weight {
  std::uint8_t* values;
  float* scales;
};

// Quantises rows of weights, each with one scale (docs/numerics.md, "Linear with FP8 weights").
//   rows  [num_rows, k] of `type`, dense; written to rows first_row .. of `to`
// Cost: memory bound, reads the rows once or twice.
// Oracle: kernels/cpu/reference/linear_fp8.hpp, bitwise (tests/plugins/devices/cuda/fp8_weights_test.cpp).
cudaError_t launch_quantize_fp8(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                std::int64_t k, const PlainFp8Weight& to, cudaStream_t stream);

// Packs a plain weight. Writes all Fp8Layout(format).bytes of `to`. Oracle: as above; the products that read the packed
// weight are compared.
cudaError_t launch_pack_fp8(const PlainFp8Weight& from, const Fp8Format& format, std::byte* to, cudaStream_t stream);

}  // namespace mortise::cuda
