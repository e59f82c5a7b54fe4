// plugins/kernels/cuda/linear_gated.hpp: a gated product of many rows in one kernel, with the bits of linear_mma.hpp
// and then launch_gated (rows.hpp). The product before the activation is never in memory.
//   y[m,i] = round(round(act(round(g[m,i]))) * round(g[m, n/2 + i])),  g[m,n] = sum_k x[m,k] w[n,k] (+ bias[n])
//   x bf16 [m, k], rows x_stride apart; w bf16 [n, k], gates first, rows w_stride apart; bias f32 [n] or null
//   y bf16 [m, n / 2], rows y_stride apart
// Shapes: k a multiple of 64, n of 16; x, w, y and their rows at multiples of 16 bytes; any m.
// Order: as linear_mma.hpp.
// Cost: 2 m n k operations in bf16.
// REQUIRES: no kernel that may still run writes w or bias, because they are read before the preceding kernels have
// ended.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, wgmma and cp.async.bulk.tensor; arXiv:2002.05202 (gated activations). Oracle:
// kernels/cuda/reference/linear.hpp and then launch_gated, bitwise (tests/plugins/kernels/cuda/linear_gated_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

// Whether the kernel takes the product, and is faster than the product and then its activation: not for the few rows of
// linear_stream.hpp, nor for small matrices, whose tiles would leave multiprocessors idle.
bool serves_gated(const LinearArgs& args);

// REQUIRES: the shapes above.
cudaError_t launch_linear_gated(const LinearArgs& args, Activation activation, cudaStream_t stream);

cudaError_t prepare_gated_kernels();  // once, before any launch

}  // namespace mortise::cuda
