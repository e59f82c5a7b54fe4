// reference/linear_int.hpp: the scalar form of linear_int and of the quantisation of rows, the oracle of
// linear_int.cpp, linear_int/amx.cpp and linear_int/pack.cpp, bit by bit. docs/numerics.md, "Quantised linear", as
// code.
#pragma once

#include <vector>

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

// A quantised weight [n, k], not packed: values [n, k], scales and zeros [n, groups]; order [k] may be empty.
struct IntWeight {
  std::size_t n, k, group_size;
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
  std::vector<std::uint8_t> zeros;
  std::vector<std::int32_t> order;
};

// A row of activations: q [k], and y's factor.
struct IntRow {
  std::vector<int> q;
  float scale;
};

IntRow quantise_activations(const std::vector<float>& x);
IntWeight quantise_weights(const std::vector<float>& w, std::size_t n, std::size_t k, int bits, std::size_t group_size);

// y [m, n], dense. x [m, k]. REQUIRES: DenormalsOff. y has the canonical NaN.
void linear_int(const Bf16* x, const IntWeight& w, const float* bias, float* y, std::size_t m);
void linear_int(const float* x, const IntWeight& w, const float* bias, float* y, std::size_t m);

}  // namespace mortise::cpu::reference
