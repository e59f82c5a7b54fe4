// plugins/kernels/cuda/reference/linear_fp8.hpp: the plain form of linear in class cuda-fp8/1, over weights that are
// not packed. One warp computes a 16 x 8 piece of y with mma.sync.m16n8k16, straight from memory:
//   acc = 0;  for each group of 128 k (or all of K) ascending; K is filled up with zeros to a whole 128:
//     d = 0;  for k = 0, 16, .. of the group:  d = mma(w[n0 .. n0 + 15, k .. k + 15], x[m0 .. m0 + 7, ..], d)
//     acc = fma(d, scale[n, group], acc)
//   y = bias is null ? acc : acc + bias[n];  rounded to bf16 if that is y's type
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/fp8_pack.hpp"

namespace mortise::cuda::reference {

// `args` without w; first_column is 0 and n all columns.
cudaError_t launch_linear_fp8(const LinearFp8Args& args, const PlainFp8Weight& weight, cudaStream_t stream);

}  // namespace mortise::cuda::reference
