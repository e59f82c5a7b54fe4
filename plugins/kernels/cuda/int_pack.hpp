// plugins/kernels/cuda/int_pack.hpp: quantises float weights on the GPU, and packs quantised weights into the order of
// int_weight.hpp. In between they are "plain": values u8 [n, k], scales f32 and zeros u8 [n, groups], row-major.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

struct PlainIntWeight {
  std::uint8_t* values;
  float* scales;
  std::uint8_t* zeros;
};

enum class FloatType : std::int32_t { kBf16, kF16, kF32 };

// Quantises rows of weights, each row and group on its own (docs/numerics.md, "Quantised linear", "Weights quantised at
// load").
//   rows  [num_rows, k] of `type`, dense; written to rows first_row .. of `to`
// Order: maxima have none; each division, product and rounding is one operation.
// Cost: memory bound, reads the rows once or twice.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise (tests/plugins/devices/cuda/int_weights_test.cpp).
cudaError_t launch_quantise_weights(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                    const IntFormat& format, const PlainIntWeight& to, cudaStream_t stream);

// Packs a plain weight. Writes all IntLayout(format).bytes of `to`. Oracle: as above; the products that read the packed
// weight are compared.
cudaError_t launch_pack_weights(const PlainIntWeight& from, const IntFormat& format, std::byte* to,
                                cudaStream_t stream);

}  // namespace mortise::cuda
