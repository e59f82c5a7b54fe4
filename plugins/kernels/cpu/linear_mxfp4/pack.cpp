#include "kernels/cpu/linear_mxfp4/pack.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear_mxfp4/linear_mxfp4.hpp"

namespace mortise::cpu {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u, kLargestExponent = 2;  // of E2M1: its numbers end at 6, below 2^3

std::uint32_t bits_of(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}
float float_of(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

// The number of E2M1 nearest to x >= 0, ties to the even mantissa: how many of the points halfway between two numbers
// are passed.
std::uint32_t nearest_e2m1(float x) {
  return std::uint32_t{x > 0.25f} + std::uint32_t{x >= 0.75f} + std::uint32_t{x > 1.25f} + std::uint32_t{x >= 1.75f} +
         std::uint32_t{x > 2.5f} + std::uint32_t{x >= 3.5f} + std::uint32_t{x > 5.0f};
}

bool quantize_group(const float* w, std::size_t count, std::uint8_t* values, float* scale) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, bits_of(w[i]) & 0x7fffffffu);
  if (most >= kInfinity) return false;
  const std::uint32_t exponent = std::max(most >> 23, kLargestExponent) - kLargestExponent;
  *scale = float_of(exponent == 0 ? 1u << 22 : exponent << 23);  // 2^-127 is a denormal
  const float inverse = float_of((254 - exponent) << 23);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t u = bits_of(w[i]);
    values[i] = static_cast<std::uint8_t>(nearest_e2m1(float_of(u & 0x7fffffffu) * inverse) | u >> 31 << 3);
  }
  return true;
}

}  // namespace

bool quantize_row_mxfp4(const float* w, std::size_t k, std::uint8_t* values, float* scales) {
  for (std::size_t first = 0; first < k; first += kMxfp4GroupColumns) {
    if (!quantize_group(w + first, std::min(kMxfp4GroupColumns, k - first), values + first, scales++)) return false;
  }
  return true;
}

std::uint8_t exponent_of_scale(float scale) {
  return static_cast<std::uint8_t>(bits_of(scale) >> 23);
}

}  // namespace mortise::cpu
