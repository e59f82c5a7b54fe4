// plugins/kernels/cpu/reference/rope.hpp: the scalar form of rows/rope.hpp for one head.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

enum class RopePairs {
  kHalves,       // (x[i], x[i + rotary_dim / 2])
  kInterleaved,  // (x[2 i], x[2 i + 1])
};

// x [rotary_dim] holds values of type T, Bf16 or float, before and after. REQUIRES: DenormalsOff.
template <class T>
void rope(RopePairs pairs, float* x, const float* cos, const float* sin, std::size_t rotary_dim);

}  // namespace mortise::cpu::reference
