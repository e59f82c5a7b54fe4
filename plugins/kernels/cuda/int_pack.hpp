// int_pack.hpp: quantised weights made on the GPU: float rows become integers, integers the order of int_weight.hpp.
// Both work in "plain" form: values u8 [n, k], scales f32 and zeros u8 [n, groups], row-major.
// Launch on `stream`, never wait, allocate nothing.
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

// Rows of weights to integers with scales and zero points, each row and group alone (docs/numerics.md, "Quantised
// linear", "Weights made from float ones"; each division, product and rounding an operation of its own).
//   rows  [num_rows, k] of `type`, dense; to: rows first_row .. of a plain weight
// Order: maxima have none. Cost: rows once or twice from memory. Oracle: kernels/cpu/reference/linear_int.hpp, bitwise.
cudaError_t launch_quantise_weights(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                    const IntFormat& format, const PlainIntWeight& to, cudaStream_t stream);

// to: IntLayout(format).bytes, of which every one is written.
cudaError_t launch_pack_weights(const PlainIntWeight& from, const IntFormat& format, std::byte* to,
                                cudaStream_t stream);

}  // namespace mortise::cuda
