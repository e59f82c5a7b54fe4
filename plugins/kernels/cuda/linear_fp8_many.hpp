// plugins/kernels/cuda/linear_fp8_many.hpp: a product with E4M3 weights for many rows. The weights are widened to bf16
// in global memory first, once for all rows, which leaves the multiplying warps nothing but products.
//   y[m,n] = round(sum_g d[m,n,g] * scale[n,g] (+ bias[n]))       docs/numerics.md, "Linear with FP8 weights"
// Shapes: LinearFp8Args, any m and k.
// Order: that of reference/linear_fp8.hpp.
// Cost: 2 m n k operations in bf16. A product comes in parts, and only the first part's widening takes time of its own.
// REQUIRES: x is 16-byte aligned and its stride a multiple of 8; widened weights are used by kernels of `stream` alone.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, wgmma.m64nNk16. Oracle: reference/linear_fp8.hpp, bitwise
// (tests/plugins/devices/cuda/fp8_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_weight.hpp"

namespace mortise::cuda {

constexpr int kFp8ManyColumns = 128;  // of a tile; parts of a product begin at multiples of it

// Returns the bytes of `n` widened columns.
constexpr std::int64_t widened_fp8_bytes(std::int64_t n, std::int64_t k) {
  return (n + kFp8ManyColumns - 1) / kFp8ManyColumns * kFp8ManyColumns * ((k + kFp8Chunk - 1) / kFp8Chunk) * kFp8Chunk *
         2;
}

constexpr std::int64_t kMaxWidenedFp8Bytes = std::int64_t{32} << 20;  // of a part, so that they stay in the L2

// Widens the columns of a part. Without panels there is nothing to widen.
struct Fp8Widening {
  const std::byte* from;  // their panels
  std::int64_t panels, chunks, chunk_bytes;
  std::byte* to;  // widened_fp8_bytes
};

// Returns the columns of a part with which the whole product takes the least time. The choice changes no bit.
std::int64_t fp8_many_part(const LinearFp8Args& args, int num_multiprocessors);
// Describes the widening of all columns of `args`.
Fp8Widening fp8_widening(const LinearFp8Args& args, void* to);

cudaError_t launch_widen_fp8(const Fp8Widening& part, cudaStream_t stream);
// Multiplies by `widened`, the widened columns of `args`. Meanwhile it widens `next` into other memory than `widened`.
cudaError_t launch_linear_fp8_many(const LinearFp8Args& args, const void* widened, const Fp8Widening& next,
                                   cudaStream_t stream);

// Must be called once for each device before the first launch.
cudaError_t prepare_fp8_many_kernels();

}  // namespace mortise::cuda
