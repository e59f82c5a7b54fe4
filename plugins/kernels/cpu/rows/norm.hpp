// plugins/kernels/cpu/rows/norm.hpp: RMS norm and layer norm of rows, including the preceding addition of the residual.
//
//   with residual:  residual[m] = round(x[m] + residual[m]), stored, and normalised instead of x[m]
//   rms_norm:       inv = 1 / sqrt(sum(x^2) / N + eps);  out = round(weight * round(x * inv))
//   layer_norm:     mean = sum(x) / N;  d = x - mean;  inv = 1 / sqrt(sum(d^2) / N + eps)
//                   out = round((d * inv) * weight + bias), the last product and sum fused;
//                   without bias only the product
//   x, residual, out   bf16 or f32 [M, N]   rows a stride of elements apart; out may be x
//   weight, bias       the type of x [N]    bias is layer_norm's and may be null
//
// round() is to the type of x; rms_norm rounds twice, as transformers' LlamaRMSNorm does.
// Order: lane i of sixteen sums elements i, i + 16, .. from 0 with fma (for layer_norm's mean with additions), missing
// elements count as 0; then the tree of vec/vec.hpp. Division and square root are IEEE's. With M = heads, N = head_dim
// this is the q and k norm of Qwen3.
// Cost: memory bound; each row is read two or three times, from the caches after the first. Errors: none.
// Source: arXiv:1910.07467 (RMS norm), arXiv:1607.06450 (layer norm).
// Oracle: reference/norm.hpp, bitwise (norm_test.cpp), which is itself compared with a double loop.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

struct NormArgs {
  const void* x;
  std::size_t x_stride;
  void* residual;  // in and out; may be null
  std::size_t residual_stride;
  const void* weight;
  const void* bias;  // for layer_norm; may be null
  void* out;
  std::size_t out_stride;
  std::size_t columns;
  float eps;
};

// The kernels normalise rows [m0, m1).
struct NormKernels {
  void (*rms_norm_bf16)(const NormArgs& args, std::size_t m0, std::size_t m1);
  void (*rms_norm_f32)(const NormArgs& args, std::size_t m0, std::size_t m1);
  void (*layer_norm_bf16)(const NormArgs& args, std::size_t m0, std::size_t m1);
  void (*layer_norm_f32)(const NormArgs& args, std::size_t m0, std::size_t m1);
};

}  // namespace mortise::cpu
