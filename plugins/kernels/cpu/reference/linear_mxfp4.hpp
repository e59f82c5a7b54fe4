// plugins/kernels/cpu/reference/linear_mxfp4.hpp: MXFP4 weights as docs/numerics.md, "Linear with MXFP4 weights",
// specifies them: widened to bf16, for reference/linear.hpp, and made from floats.
#pragma once

#include <vector>

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

struct Mxfp4Weight {
  std::size_t n, k;
  std::vector<std::uint8_t> values;     // [n, k], the bits of E2M1 numbers
  std::vector<std::uint8_t> exponents;  // [n, ceil(k / 32)], biased: the scale is 2^(exponent - 127)
};

// value * 2^(exponent - 127). REQUIRES: exponent <= 252.
Bf16 widen_mxfp4(std::uint8_t value, std::uint8_t exponent);

// [n, k]
std::vector<Bf16> widen_mxfp4(const Mxfp4Weight& weight);

// The groups' scales as f32, by bits: 2^-127 is a denormal.
std::vector<float> scales_of(const Mxfp4Weight& weight);

// w f32 [n, k], finite.
Mxfp4Weight quantize_mxfp4(const std::vector<float>& w, std::size_t n, std::size_t k);

}  // namespace mortise::cpu::reference
