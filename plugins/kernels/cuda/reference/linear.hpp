// reference/linear.hpp: the plain form of linear in class cuda-bf16/1, the oracle of linear_mma.cu and of what cuBLASLt
// is asked to do. One warp makes one 16 x 8 piece of y with mma.sync.m16n8k16 straight from memory:
//   d = 0;  for k = 0, 16, 32, .. below K, ascending:  d = mma(w[n0 .. n0 + 15, k .. k + 15], x[m0 .. m0 + 7, ..], d)
//   y = bias is null ? d : d + bias[n];  rounded to bf16 if that is y's type
// What the instruction does within its sixteen products is the hardware's; nothing else is left open.
#pragma once

#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda::reference {

cudaError_t launch_linear(const LinearArgs& args, cudaStream_t stream);

}  // namespace mortise::cuda::reference
