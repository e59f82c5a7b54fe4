// plugins/kernels/cpu/linear_fp8/pack.hpp: rounds float weights to E4M3. linear_int/pack.hpp packs them: as values of 8
// bits. Oracle: reference/linear_fp8.hpp, bitwise.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// Quantises a row of k weights with one scale (docs/numerics.md, "Linear with FP8 weights"). REQUIRES: DenormalsOff.
void quantize_row_fp8(const float* w, std::size_t k, std::uint8_t* values, float* scale);

}  // namespace mortise::cpu
