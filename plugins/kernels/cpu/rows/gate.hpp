// plugins/kernels/cpu/rows/gate.hpp: applies an activation function to sixteen values and rounds
// the results to the type of the values that they multiply.
#pragma once

#include "kernels/cpu/rows/activation.hpp"
#include "kernels/cpu/vec/io.hpp"
#include "kernels/cpu/vec/math.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

template <Activation act>
MORTISE_INLINE F32x16 evaluate(F32x16 x) {
  if constexpr (act == Activation::kSilu) return silu(x);
  if constexpr (act == Activation::kGelu) return gelu(x);
  if constexpr (act == Activation::kGeluTanh) return gelu_tanh(x);
  if constexpr (act == Activation::kRelu) return relu(x);
}

// round(act(x)); x holds values of type T.
template <Activation act, class T>
MORTISE_INLINE F32x16 rounded_activation(F32x16 x) {
  if constexpr (act == Activation::kSilu && sizeof(T) == sizeof(Bf16)) {
    return rounded_silu_of_bf16(x);
  } else {
    return rounded<T>(evaluate<act>(x));
  }
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
