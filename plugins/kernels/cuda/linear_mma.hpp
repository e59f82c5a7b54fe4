// plugins/kernels/cuda/linear_mma.hpp: the product that defines class cuda-bf16/1 (docs/numerics.md, "Linear on CUDA").
// Algorithms of cuBLASLt are used only if their bits equal this kernel's; where none does, or none takes the alignment,
// this kernel computes the product.
//   y[m,n] = sum_k x[m,k] w[n,k] (+ bias[n])
//   x bf16 [m, k], rows x_stride apart; w bf16 [n, k], rows w_stride apart; bias f32 [n] or null
//   y bf16 or f32 [m, n], rows y_stride apart; the bias is added in f32, before the one rounding to bf16
// Shapes: any k, any stride, any address that the type allows.
// Order: mma.sync.m16n8k16 with K ascending by 16, never split, zeros beyond K.
// Cost: reads the weights once for few rows; for many rows a fraction of the speed of wgmma.
// Errors: cudaGetLastError() of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, mma.sync.m16n8k16. Oracle: kernels/cuda/reference/linear.hpp, bitwise
// (tests/plugins/kernels/cuda/linear_mma_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

struct LinearArgs {
  const std::uint16_t* x;
  std::int64_t x_stride;
  const std::uint16_t* w;
  std::int64_t w_stride;
  const float* bias;
  void* y;
  std::int64_t y_stride;
  ElementType y_type;
  std::int64_t m, n, k;
};

cudaError_t launch_linear_mma(const LinearArgs& args, cudaStream_t stream);
cudaError_t prepare_linear_kernels();  // once, before any launch

}  // namespace mortise::cuda
