// plugins/kernels/cpu/reference/linear_fp8.hpp: the scalar form of linear_fp8 and of the quantising of weights to E4M3
// (docs/numerics.md, "Linear with FP8 weights"). linear_fp8/linear_fp8.cpp, linear_fp8/amx.cpp and linear_fp8/pack.cpp
// equal it bit by bit.
#pragma once

#include <vector>

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

// A weight [n, k]: values [n, k], the bits of E4M3 numbers; scales [n, groups]. group_size: 128, or at least k.
struct Fp8Weight {
  std::size_t n, k, group_size;
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
};

float from_e4m3(std::uint8_t value);
Fp8Weight quantize_fp8(const std::vector<float>& w, std::size_t n, std::size_t k);

// x [m, k], y [m, n], both dense. y has the canonical NaN. REQUIRES: DenormalsOff.
void linear_fp8(const Bf16* x, const Fp8Weight& w, const float* bias, float* y, std::size_t m);
void linear_fp8(const float* x, const Fp8Weight& w, const float* bias, float* y, std::size_t m);

}  // namespace mortise::cpu::reference
