// plugins/kernels/cpu/reference/linear_block32.hpp: the scalar form of quantisation and of linear_block32
// (docs/numerics.md, "Quantised linear in blocks of 32"). linear_block32.cpp and pack.cpp in linear_block32/ equal it
// bit by bit.
#pragma once

#include <vector>

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

// A quantised weight [n, k], not packed: values [n, k], scales [n, groups], minima [n, groups] or empty.
struct Block32Weight {
  std::size_t n, k, group_size;
  int zero;
  std::vector<std::uint8_t> values;
  std::vector<float> scales, minima;
};

// Float weights [n, k] with 8 or 4 bits. REQUIRES: DenormalsOff.
Block32Weight quantize_weights_block32(const std::vector<float>& w, std::size_t n, std::size_t k, int bits);

// x [m, k], y [m, n], both dense. y has the canonical NaN. REQUIRES: DenormalsOff.
void linear_block32(const Bf16* x, const Block32Weight& w, const float* bias, float* y, std::size_t m);
void linear_block32(const float* x, const Block32Weight& w, const float* bias, float* y, std::size_t m);

}  // namespace mortise::cpu::reference
