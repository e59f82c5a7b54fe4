// reference/rope.hpp: the oracle of rope.hpp: one head, one element at a time.
#pragma once

#include <cstddef>

namespace mortise::cpu::reference {

// x [rotary_dim] holds bf16 values when `bf16`, and does so afterwards. REQUIRES: DenormalsOff.
void rope(bool bf16, bool interleaved, float* x, const float* cos, const float* sin, std::size_t rotary_dim);

}  // namespace mortise::cpu::reference
