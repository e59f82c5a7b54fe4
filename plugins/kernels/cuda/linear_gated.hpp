// plugins/kernels/cuda/linear_gated.hpp: a gated product of many rows in one kernel, with the bits of linear_mma.hpp
// and then launch_gated (rows.hpp). The product before the activation is never in memory.
//   y[m,i] = round(round(act(round(g[m,i]))) * round(g[m, n/2 + i])),  g[m,n] = sum_k x[m,k] w[n,k] (+ bias[n])
//   x bf16 [m, k], rows x_stride apart; w bf16 [n, k], gates first, rows w_stride apart; bias f32 [n] or null
//   y bf16 [m, n / 2], rows y_stride apart; it overlaps neither x nor w
// Shapes: any m; k a positive multiple of 64, n a multiple of 16; x, w, y and their rows at multiples of 16 bytes.
// Order: as linear_mma.hpp.
// Cost: 2 m n k operations in bf16.
// REQUIRES: no kernel that may still run writes w or bias, because they are read before the preceding kernels have
// ended.
// Errors: the cudaError_t of the launch; cudaErrorNotSupported if the driver has no tensor maps.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, wgmma and cp.async.bulk.tensor; arXiv:2002.05202 (gated activations).
// Oracle: kernels/cuda/reference/linear.hpp and then launch_gated, bitwise
// (tests/plugins/kernels/cuda/linear_gated_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

// With a smaller k the activation would probably take longer than the products that it runs beside. This is an
// estimate: the kernel was timed alone with k = 4096.
constexpr std::int64_t kLeastGatedK = 1024;

// Whether the kernel takes the product, and is meant for it: not for the few rows of linear_stream.hpp, nor where tiles
// would be half empty or leave multiprocessors idle.
bool serves_linear_gated(const LinearArgs& args);

// REQUIRES: the shapes above.
cudaError_t launch_linear_gated(const LinearArgs& args, Activation activation, cudaStream_t stream);

// The same, for tests: with tiles of the given size, 0 .. kNumGatedTileSizes - 1, and at most `most_blocks` thread
// blocks. REQUIRES: most_blocks >= 2. launch_linear_gated chooses the fastest size and uses all multiprocessors.
constexpr int kNumGatedTileSizes = 5;
cudaError_t launch_linear_gated_with(int tile_size, int most_blocks, const LinearArgs& args, Activation activation,
                                     cudaStream_t stream);

cudaError_t prepare_linear_gated_kernels();  // once, before any launch

}  // namespace mortise::cuda
