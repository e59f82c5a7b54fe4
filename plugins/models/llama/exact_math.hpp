// plugins/models/llama/exact_math.hpp: powers, logarithms, sine and cosine in double, with the same bits on every
// machine. libm's functions differ from release to release, and one bit of a rope table affects every token
// (docs/numerics.md). This file uses only + - * / on doubles, conversions and bit operations, and is compiled with
// -ffp-contract=off. Rounded to f32 the results are within 0.5000001 of a unit in the last place.
#pragma once

namespace mortise::llama {

// base ^ exponent. REQUIRES: base >= 1, finite; the result is finite and above 2^-1022.
double power(double base, double exponent);

// log2 x, within a few units in the last place. REQUIRES: x is finite and at least 2^-1022.
double log2_of(double x);

struct SinCos {
  double sin;
  double cos;
};

// REQUIRES: x is an f32 value, 0 <= x < 2^25.
SinCos sin_cos(float x);

}  // namespace mortise::llama
