// activation.hpp: activations, alone and as the gate of an MLP.
//   apply:  out[i] = round(act(x[i]))
//   gated:  out[i] = round(round(act(gate[i])) * up[i])
// round() is to the type, where transformers rounds. The functions are those of math.hpp; docs/numerics.md has the
// formulas. n counts elements; `out` may be an input. Oracle: reference/activation.hpp, bitwise.
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
