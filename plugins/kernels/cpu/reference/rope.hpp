// plugins/kernels/cpu/reference/rope.hpp: the scalar form of rows/rope.hpp for one head.
#pragma once

#include <cstddef>

namespace mortise::cpu::reference {

// x [rotary_dim]. With `bf16` it holds bf16 values, before and after. REQUIRES: DenormalsOff.
void rope(bool bf16, bool interleaved, float* x, const float* cos, const float* sin, std::size_t rotary_dim);

}  // namespace mortise::cpu::reference
