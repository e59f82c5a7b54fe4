// int_scale.hpp: what makes a run of numbers int8 with one scale (docs/numerics.md, "Quantised linear", Activations):
// rows of activations, and heads of K and V for an int8 cache.
#pragma once

#include "kernels/cpu/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// The largest magnitude, as bits: integers order as the numbers do, NaN above infinity.
template <class X>
MORTISE_INLINE std::int32_t largest_magnitude(const X* x, std::size_t count) {
  I32x16 most = broadcast_i32(0);
  for (std::size_t k = 0; k < count; k += kLanes) {
    const I32x16 magnitude = bits(read_tail(x + k, lanes_left(count - k))) & broadcast_i32(INT32_MAX);
    most = select(gt(magnitude, most), magnitude, most);
  }
  alignas(64) std::int32_t lanes_of_most[kLanes];
  store(lanes_of_most, most);
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < kLanes; ++i) largest = lanes_of_most[i] > largest ? lanes_of_most[i] : largest;
  return largest;
}

struct IntScale {
  float scale, inverse;  // inverse 0: all int8 values are 0
};

// Division through a vector: the portable path flushes denormals by hand.
MORTISE_INLINE IntScale int_scale(std::int32_t largest) {
  constexpr std::int32_t kInfinity = 0x7f800000, kNan = 0x7fc00000, kSmallest = (127 - 119) << 23;  // 2^-119
  if (largest >= kInfinity) {
    float nan;
    std::memcpy(&nan, &kNan, sizeof nan);
    return {nan, 0.0f};
  }
  if (largest < kSmallest) return {0.0f, 0.0f};
  const F32x16 most = from_bits(broadcast_i32(largest)), steps = broadcast(127.0f);
  alignas(64) float scale[kLanes], inverse[kLanes];
  store(scale, most / steps);
  store(inverse, steps / most);
  return {scale[0], inverse[0]};
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
