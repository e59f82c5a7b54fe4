// plugins/kernels/cuda/linear_stream.hpp: the product of linear_mma.hpp for few rows of x, with the same bits, as fast
// as the weights can be read. It starts to load the weights before the preceding kernels have ended (launch.cuh), so
// that memory is busy while attention and norms compute.
//   y[m,n] = sum_k x[m,k] w[n,k] (+ bias[n])
//   x bf16 [m, k], rows x_stride apart; w bf16 [n, k], rows w_stride apart; bias f32 [n] or null
//   y bf16 or f32 [m, n], rows y_stride apart
// Shapes: m <= kMaxStreamedRows, k a multiple of 64, any n; x, w and their rows at multiples of 16 bytes.
// Order: as linear_mma.hpp.
// Cost: reads n * k * 2 bytes of weights once, on an H200 at the bandwidth of a copy.
// REQUIRES: no kernel that may still run writes w or bias, because they are read before the preceding kernels have
// ended.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, mma.sync.m16n8k16 and cp.async.bulk. Oracle: kernels/cuda/reference/linear.hpp, bitwise
// (tests/plugins/kernels/cuda/linear_stream_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

constexpr std::int64_t kMaxStreamedRows = 32;

// Whether these kernels take the product: few enough rows, k a multiple of 64, and x, w and their rows at multiples of
// 16 bytes.
bool streams(const LinearArgs& args);

// REQUIRES: streams(args).
cudaError_t launch_linear_stream(const LinearArgs& args, cudaStream_t stream);

// A gated product in one kernel, with the bits of launch_linear_stream and then launch_gated (rows.hpp): w and bias
// have n columns of y before the activation, gates first; y is bf16 [m, n / 2].
//   y[m,i] = round(round(act(round(g[m,i]))) * round(g[m, n/2 + i])), g the product
// Shapes: as above, m <= 8, n a multiple of 32, and all rows of x fit into shared memory; streams_gated() says whether
// they do. Oracle: those two launches, bitwise (tests/plugins/kernels/cuda/linear_stream_test.cpp).
bool streams_gated(const LinearArgs& args);

// REQUIRES: streams_gated(args).
cudaError_t launch_gated_stream(const LinearArgs& args, Activation activation, cudaStream_t stream);

cudaError_t prepare_stream_kernel();  // once, before any launch

}  // namespace mortise::cuda
