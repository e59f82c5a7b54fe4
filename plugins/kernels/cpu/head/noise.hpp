// plugins/kernels/cpu/head/noise.hpp: Gumbel noise as a function of (key, position, token), so that a draw can be
// repeated anywhere.
//   g = -log(-log1p(-v)),  v = (r + 0.5) 2^-32,  r the first word of Philox (philox.hpp)
// f32 cannot hold v near 1 or 1 - v near 0, so each half of r is evaluated from its own end. Both tails are then right:
//   w = (f32(s) + 0.5) 2^-32 <= 1/2,  s = r below 2^31, otherwise 2^32 - 1 - r
//   E = -log1p(-w) in the first case, -log(w) in the second;  g = -log(E)
// g lies between -log(33 log 2) = -3.13 and 33 log 2 = 22.87.
// Shape: sixteen tokens at a time.
// Order: one operation after the other for each token; the formulas are those of vec/math.hpp.
// Cost: two logarithms a token; gumbel_bound() needs none.
// Errors: none. Source: the Gumbel-max trick, Maddison, Tarlow, Minka, A* sampling, arXiv:1411.0030.
// Oracle: reference/noise.hpp, bitwise (head/noise_test.cpp).
#pragma once

#include "kernels/cpu/head/philox.hpp"
#include "kernels/cpu/vec/math.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

constexpr float kLargestNoise = 23.0f;  // an upper bound of g

MORTISE_LARGE_INLINE F32x16 gumbel(I32x16 r) {
  const Mask16 upper = gt(broadcast_i32(0), r);
  const I32x16 s = select(upper, r ^ broadcast_i32(-1), r);
  const F32x16 w = (to_float(s) + broadcast(0.5f)) * broadcast(0x1p-32f);
  return neg(log(neg(select(upper, log(w), log1p(neg(w))))));
}

// An upper bound of gumbel(r) without a logarithm: g <= -log v, and log2 v >= exponent + mantissa of v (a chord of
// log2).
MORTISE_LARGE_INLINE F32x16 gumbel_bound(I32x16 r) {
  constexpr float kLn2 = 0x1.62e430p-1f;
  const F32x16 v = to_float(shift_right<1>(r)) * broadcast(0x1p-31f);  // to_float may round up; the slack covers it
  const F32x16 log2_v = fma(to_float(bits(v)), broadcast(0x1p-23f), broadcast(-127.0f));
  return fma(log2_v, broadcast(-kLn2), broadcast(0.01f));
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
