// linear_stream.hpp: the product of linear_mma.hpp, the same bits, for few rows of x, where the time is that of reading
// the weights. It begins to load them before the kernels before it have ended (launch.cuh), so that memory is busy
// while attention and norms compute.
//   x bf16 [m, k], rows x_stride apart; w bf16 [n, k], rows w_stride apart; bias f32 [n] or null
//   y bf16 or f32 [m, n], rows y_stride apart
// REQUIRES: w and bias are constant, or were written by no kernel: they are read before the kernels before have ended.
// Launches on `stream`, never waits, allocates nothing.
// Cost: n * k * 2 bytes of weights once. An H200 reads them at the bandwidth of a copy.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

constexpr std::int64_t kMostStreamedRows = 32;

// Whether these kernels take the product: at most that many rows, k a multiple of 64, x and w and their rows at
// multiples of 16 bytes.
bool streams(const LinearArgs& args);

// REQUIRES: streams(args).
cudaError_t launch_linear_stream(const LinearArgs& args, cudaStream_t stream);

cudaError_t prepare_stream_kernel();  // once, before anything is launched

}  // namespace mortise::cuda
