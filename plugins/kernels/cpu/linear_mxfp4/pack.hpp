// plugins/kernels/cpu/linear_mxfp4/pack.hpp: quantises float weights to MXFP4. linear_int/pack.hpp then packs the
// values, as it packs values of 4 bits.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// Quantises a row of k weights in groups of 32 columns (docs/numerics.md, "Linear with MXFP4 weights", "Weights made
// MXFP4 at load"). The last group may be shorter.
//   a = max |w|;  e = max(0, biased exponent of a - 2);  scale = 2^(e - 127)
//   value = the E2M1 number nearest to w / scale, ties to the even mantissa, at most 6 in magnitude; the sign of w
//   w f32 [k]; values, the bits of E2M1 numbers, u8 [k]; scales f32 [ceil(k / 32)]
// Returns false if a weight is NaN or infinite.
// Order: maxima have none; w / scale is exact but for results that round to 0.
// Cost: reads w twice, the second time from the cache.
// Source: OCP Microscaling Formats (MX) Specification 1.0, 6.3. Oracle: reference/linear_mxfp4.hpp, bitwise
// (linear_mxfp4_test.cpp). REQUIRES: DenormalsOff.
bool quantize_row_mxfp4(const float* w, std::size_t k, std::uint8_t* values, float* scales);

// The biased exponent of a scale. REQUIRES: the scale is a power of two from 2^-127, a denormal, to 2^125.
std::uint8_t exponent_of_scale(float scale);

}  // namespace mortise::cpu
