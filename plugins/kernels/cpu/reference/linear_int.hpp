// plugins/kernels/cpu/reference/linear_int.hpp: the scalar form of quantisation and of linear_int (docs/numerics.md,
// "Quantised linear"). linear_int.cpp, amx.cpp and pack.cpp in linear_int/ equal it bit by bit.
#pragma once

#include <vector>

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

// A quantised weight [n, k], not packed: values [n, k], scales and zeros [n, groups], order [k]. `order` may be empty.
struct IntWeight {
  std::size_t n, k, group_size;
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
  std::vector<std::uint8_t> zeros;
  std::vector<std::int32_t> order;
};

// A quantised row of activations: q [k] and the factor of y.
struct IntRow {
  std::vector<int> q;
  float scale;
};

IntRow quantize_activations(const std::vector<float>& x);
IntWeight quantize_weights(const std::vector<float>& w, std::size_t n, std::size_t k, int bits, std::size_t group_size);

// x [m, k], y [m, n], both dense. y has the canonical NaN. REQUIRES: DenormalsOff.
void linear_int(const Bf16* x, const IntWeight& w, const float* bias, float* y, std::size_t m);
void linear_int(const float* x, const IntWeight& w, const float* bias, float* y, std::size_t m);

}  // namespace mortise::cpu::reference
