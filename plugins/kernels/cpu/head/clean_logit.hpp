// plugins/kernels/cpu/head/clean_logit.hpp: head reductions and sampling read logits through clean(), which leaves no
// NaN, no +infinity and only one zero.
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

constexpr float kNoLogit = -__builtin_inff();  // the logit of a token that cannot be drawn
constexpr float kLargestLogit = 0x1.fffffep+127f;

// NaN -> -infinity, +infinity -> the largest finite number, -0 and denormals -> +0.
MORTISE_INLINE F32x16 clean(F32x16 x) {
  return min(select(eq(x, x), x, broadcast(kNoLogit)), broadcast(kLargestLogit)) + zero();
}

// The first n logits, cleaned; the other lanes are -infinity.
MORTISE_INLINE F32x16 load_clean_tail(const float* p, std::size_t n) {
  return select(first_lanes(n), clean(load_tail(p, n)), broadcast(kNoLogit));
}
MORTISE_INLINE F32x16 load_clean(const float* p, std::size_t left) {
  return left >= kLanes ? clean(load(p)) : load_clean_tail(p, left);
}

// One-lane versions of vector operations go through a whole vector, so that they are the same operations.
MORTISE_INLINE float first_lane(F32x16 x) {
  float lanes_of_x[kLanes];
  store(lanes_of_x, x);
  return lanes_of_x[0];
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
