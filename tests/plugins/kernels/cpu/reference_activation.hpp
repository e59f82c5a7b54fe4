// reference_activation.hpp: the scalar reference of an activation, and of a row of gates with what they gate.
#pragma once

#include <vector>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/math.hpp"
#include "kernels/cpu/rows/activation.hpp"

namespace mortise::cpu {

inline float reference_of(Activation act, float x) {
  switch (act) {
    case Activation::kSilu:
      return reference::silu(x);
    case Activation::kGelu:
      return reference::gelu(x);
    case Activation::kGeluTanh:
      return reference::gelu_tanh(x);
    case Activation::kRelu:
      return reference::relu(x);
  }
  return 0;
}

// y [m, n] rounded to bf16, its columns up to n / 2 as gates of the others.
inline std::vector<Bf16> reference_gated(Activation act, const std::vector<float>& y, std::size_t m, std::size_t n) {
  const auto as_stored = [](float x) { return bf16_to_float(float_to_bf16(x)); };
  std::vector<Bf16> out;
  for (std::size_t i = 0; i < m; ++i) {
    for (const float* row = &y[i * n]; row < &y[i * n] + n / 2; ++row) {
      const float gate = as_stored(reference_of(act, as_stored(*row)));
      out.push_back(float_to_bf16(gate * as_stored(row[n / 2])));
    }
  }
  return out;
}

}  // namespace mortise::cpu
