// plugins/kernels/cpu/linear_int/scale.hpp: the scale that turns a run of numbers into int8 or E4M3 (docs/numerics.md,
// "Quantised linear", Activations). Used for rows of activations, and for heads of K and V in a cache in bytes.
#pragma once

#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// The largest magnitude as the bits of an f32. Such integers have the order of the numbers, with NaN above infinity.
template <class X>
MORTISE_INLINE std::int32_t largest_magnitude(const X* x, std::size_t count) {
  const I32x16 magnitude = broadcast_i32(INT32_MAX);
  I32x16 most = broadcast_i32(0);
  std::size_t k = 0;
  if constexpr (sizeof(X) == sizeof(Bf16)) {
    I32x16 odd = most;
    for (; k + 2 * kLanes <= count; k += 2 * kLanes) {
      F32x16 x0, x1;
      read_even_odd(x + k, x0, x1);
      most = max(most, bits(x0) & magnitude);
      odd = max(odd, bits(x1) & magnitude);
    }
    most = max(most, odd);
  }
  for (; k < count; k += kLanes) most = max(most, bits(read_tail(x + k, lanes_left(count - k))) & magnitude);
  alignas(64) std::int32_t lanes_of_most[kLanes];
  store(lanes_of_most, most);
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < kLanes; ++i) largest = lanes_of_most[i] > largest ? lanes_of_most[i] : largest;
  return largest;
}

struct IntScale {
  float scale, inverse;  // inverse 0: all values are 0
};

// `most_steps`: what the largest number becomes, 127 for int8 and 448 for E4M3. Smaller numbers than 2^-119 for int8
// and 2^-117 for E4M3 become zeros, so that neither an operand nor a result is a denormal.
MORTISE_INLINE IntScale int_scale(std::int32_t largest, float most_steps = 127.0f) {
  constexpr std::int32_t kInfinity = 0x7f800000, kNan = 0x7fc00000;
  const std::int32_t smallest = (most_steps > 128.0f ? 127 - 117 : 127 - 119) << 23;
  if (largest >= kInfinity) {
    float nan;
    std::memcpy(&nan, &kNan, sizeof nan);
    return {nan, 0.0f};
  }
  if (largest < smallest) return {0.0f, 0.0f};
  float most;
  std::memcpy(&most, &largest, sizeof most);
  return {most / most_steps, most_steps / most};
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
