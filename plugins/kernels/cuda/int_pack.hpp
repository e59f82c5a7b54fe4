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
//   8 bits:  scale = a / 127, zero = 128, value = nearest(w * (127 / a)) + 128,  a = max |w|
//   4 bits:  scale = range / 15, zero = nearest(-low * (15 / range)), value = nearest(w * (15 / range)) + zero,
//            range = max(0, max w) - low,  low = min(0, min w)
//   rows  [num_rows, k] of `type`, dense; written to rows first_row .. of `to`
// Order: maxima have none; each division, product and rounding is one operation.
// Cost: memory bound, reads the rows once or twice.
// Source: rounding to the nearest in groups is the baseline of GPTQ, arXiv:2210.17323.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise (tests/plugins/devices/cuda/int_weights_test.cpp).
cudaError_t launch_quantize_weights(const void* rows, FloatType type, std::int64_t num_rows, std::int64_t first_row,
                                    const IntFormat& format, const PlainIntWeight& to, cudaStream_t stream);

// Packs a plain weight: copies values, scales and zero points to the places of IntLayout. Writes all
// IntLayout(format).bytes of `to`. If a scale of a group of columns is not usual (is_usual_scale), `unusual`, in device
// memory, is set to 1.
// Order: elements are independent.
// Cost: memory bound, reads the plain weight once and writes the packed weight once.
// Oracle: as above; the products that read the packed weight are compared.
cudaError_t launch_pack_weights(const PlainIntWeight& from, const IntFormat& format, std::byte* to,
                                std::uint32_t* unusual, cudaStream_t stream);

}  // namespace mortise::cuda
