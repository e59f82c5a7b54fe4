// linear_mma.hpp: y[m,n] = sum_k x[m,k] w[n,k] (+ bias[n]) in the arithmetic of class cuda-bf16/1 (docs/numerics.md):
// mma.sync.m16n8k16, K ascending by 16 and never split, zeros after K. It is what algorithms of cuBLASLt are compared
// with, bit by bit, before they are used, and what serves where none is equal or none takes the alignment.
//   x bf16 [m, k], rows x_stride apart; w bf16 [n, k], rows w_stride apart; bias f32 [n] or null
//   y bf16 or f32 [m, n], rows y_stride apart; the bias is added in f32, before the one rounding to bf16
// Any address that its type allows, any stride, any K. Launches on `stream`, never waits, allocates nothing.
// Cost: for few rows the weights are read once; for many rows it reaches a fraction of what wgmma does.
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
cudaError_t prepare_linear_kernels();  // once, before anything is launched

}  // namespace mortise::cuda
