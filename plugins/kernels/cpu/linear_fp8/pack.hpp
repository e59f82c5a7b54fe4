// plugins/kernels/cpu/linear_fp8/pack.hpp: quantises float weights to E4M3. linear_int/pack.hpp then packs the values,
// as it packs values of 8 bits.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// Quantises a row of k weights with one scale (docs/numerics.md, "Linear with FP8 weights", "Weights made FP8 at
// load").
//   a = max |w|;  scale = a / 448;  value = the E4M3 number nearest to w * (448 / a), ties to the even mantissa
//   a < 2^-117: scale = 0 and all values 0.  A weight is NaN or infinite: scale = NaN and all values 0.
//   w f32 [k]; values, the bits of E4M3 numbers, u8 [k]; scale f32 [1]
// Order: maxima have none; each division, product and rounding is one operation.
// Cost: reads w twice, the second time from the cache. Errors: none.
// Source: OCP 8-bit Floating Point Specification, E4M3. Oracle: reference/linear_fp8.hpp, bitwise
// (linear_fp8_test.cpp). REQUIRES: DenormalsOff.
void quantize_row_fp8(const float* w, std::size_t k, std::uint8_t* values, float* scale);

}  // namespace mortise::cpu
