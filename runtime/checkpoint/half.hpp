// runtime/checkpoint/half.hpp: 16-bit floats to f32, exactly, and f32 to bf16.
#pragma once

#include <bit>
#include <cstdint>

namespace mortise {

// Exact: a denormal half is an ordinary float.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  if (magnitude < 0x0400u) {
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
  }
  const std::uint32_t bias = magnitude >= 0x7c00u ? 255 - 31 : 127 - 15;
  return std::bit_cast<float>(sign | ((magnitude << 13) + (bias << 23)));
}

// To the nearest, ties to even; a NaN stays one.
inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace mortise
