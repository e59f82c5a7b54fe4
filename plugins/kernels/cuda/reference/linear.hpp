// plugins/kernels/cuda/reference/linear.hpp: the plain form of linear in class cuda-bf16/1. linear_mma.cu,
// linear_stream*.cu and the verified algorithms of cuBLASLt equal it bit by bit. One warp computes a 16 x 8 piece of y
// with mma.sync.m16n8k16, straight from memory:
//   d = 0;  for k = 0, 16, 32, .. below K, ascending:  d = mma(w[n0 .. n0 + 15, k .. k + 15], x[m0 .. m0 + 7, ..], d)
//   y = bias is null ? d : d + bias[n];  rounded to bf16 if that is y's type
// The hardware defines how the instruction adds its sixteen products. Everything else is specified here.
#pragma once

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda::reference {

cudaError_t launch_linear(const LinearArgs& args, cudaStream_t stream);

}  // namespace mortise::cuda::reference
