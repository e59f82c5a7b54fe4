// plugins/kernels/cpu/rows/activation.hpp: activation functions, alone and as the gate of an MLP.
//   apply:  out[i] = round(act(x[i]))
//   gated:  out[i] = round(round(act(gate[i])) * up[i])
// Shapes: arrays of n elements, bf16 or f32; `out` may be an input. round() is to that type, where transformers rounds.
// Order: per element; the formulas are those of vec/math.hpp (docs/numerics.md).
// Cost: memory bound, except for gelu on few threads. Errors: none.
// Source: GELU, arXiv:1606.08415; SiLU and gated activations, arXiv:2002.05202.
// Oracle: the functions of reference/math.hpp, bitwise (rows/elementwise_test.cpp).
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

enum class Activation : std::int32_t {  // the values of MORTISE_ACT_*
  kSilu = 1,                            // x / (1 + e^-x)
  kGelu = 2,                            // x / 2 (1 + erf(x / sqrt(2)))
  kGeluTanh = 3,                        // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  kRelu = 4,
};

struct ActivationKernels {
  void (*apply_bf16)(Activation act, const Bf16* x, Bf16* out, std::size_t n);
  void (*apply_f32)(Activation act, const float* x, float* out, std::size_t n);
  void (*gated_bf16)(Activation act, const Bf16* gate, const Bf16* up, Bf16* out, std::size_t n);
  void (*gated_f32)(Activation act, const float* gate, const float* up, float* out, std::size_t n);
};

}  // namespace mortise::cpu
