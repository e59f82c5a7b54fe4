// clean_logit.hpp: logits as head reductions and sampling see them: never NaN, never +infinity, one zero.
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

constexpr float kNoLogit = -__builtin_inff();  // the logit of a token that cannot be drawn
constexpr float kLargestLogit = 0x1.fffffep+127f;

// NaN -> -infinity, +infinity -> the largest finite number, -0 and denormals -> +0.
MORTISE_INLINE F32x16 clean(F32x16 x) {
  return min(select(eq(x, x), x, broadcast(kNoLogit)), broadcast(kLargestLogit)) + zero();
}

// n lanes of clean logits, the others -infinity.
MORTISE_INLINE F32x16 load_clean_tail(const float* p, std::size_t n) {
  return select(first_lanes(n), clean(load_tail(p, n)), broadcast(kNoLogit));
}
MORTISE_INLINE F32x16 load_clean(const float* p, std::size_t left) {
  return left >= kLanes ? clean(load(p)) : load_clean_tail(p, left);
}

// One lane to a scalar and back, so that a scalar step is the same operation as a lane's.
MORTISE_INLINE float first_lane(F32x16 x) {
  float lanes_of_x[kLanes];
  store(lanes_of_x, x);
  return lanes_of_x[0];
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
