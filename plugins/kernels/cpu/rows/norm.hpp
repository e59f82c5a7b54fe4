// norm.hpp: RMS norm and layer norm over rows, with the addition of the residual that precedes them.
//
//   with residual:  residual[m] = round(x[m] + residual[m]), stored; the norm is taken of that, else of x[m]
//   rms_norm:       inv = 1 / sqrt(sum(x^2) / N + eps);  out = round(weight * round(x * inv))
//   layer_norm:     mean = sum(x) / N;  d = x - mean;  inv = 1 / sqrt(sum(d^2) / N + eps)
//                   out = round((d * inv) * weight + bias), the last product and sum fused;
//                   without bias only the product
//   x, residual, out   bf16 or f32 [M, N]   rows a stride of elements apart
//   weight, bias       the type of x [N]    bias is layer_norm's and may be null
//
// round() is to the type of x: in rms_norm twice, as transformers' LlamaRMSNorm does it.
// Order: lane i of sixteen sums elements i, i + 16, .. from 0 with fma (layer_norm's mean: with additions), the last
// ones filled up with zeros; then the tree of vec.hpp. Division and square root are IEEE's. `out` may be x. A row of
// head_dim elements, with strides, is the q and k norm of Qwen3. Oracle: reference/norm.hpp, bitwise; that one against
// a double loop.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

struct NormArgs {
  const void* x;
  std::size_t x_stride;
  void* residual;  // in and out; null: none
  std::size_t residual_stride;
  const void* weight;
  const void* bias;  // layer_norm; null: none
  void* out;
  std::size_t out_stride;
  std::size_t columns;
  float eps;
};

// Rows [m0, m1).
struct NormKernels {
  void (*rms_norm_bf16)(const NormArgs& args, std::size_t m0, std::size_t m1);
  void (*rms_norm_f32)(const NormArgs& args, std::size_t m0, std::size_t m1);
  void (*layer_norm_bf16)(const NormArgs& args, std::size_t m0, std::size_t m1);
  void (*layer_norm_f32)(const NormArgs& args, std::size_t m0, std::size_t m1);
};

}  // namespace mortise::cpu
