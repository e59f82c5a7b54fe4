#include "kernels/cpu/linear_fp8/pack.hpp"

#include <cstring>

namespace mortise::cpu {
namespace {

constexpr float kLargest = 448;         // of E4M3
constexpr float kSmallest = 0x1p-117f;  // with a smaller range, a scale would be a denormal
constexpr std::uint32_t kInfinity = 0x7f800000u;

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

// Nearest, ties to even. REQUIRES: |x| < 464.
std::uint8_t to_e4m3(float x) {
  const std::uint32_t u = bits_of(x), sign = u >> 24 & 0x80u, magnitude = u & 0x7fffffffu;
  constexpr std::uint32_t kNormal = (127 - 6) << 23;
  // Below 2^-6 neighbours are 2^-9 apart: adding 2^14 rounds to them.
  const std::uint32_t small = bits_of(float_of(magnitude) + 0x1p14f) - bits_of(0x1p14f);
  const std::uint32_t usual = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u) - ((127u - 7u) << 23)) >> 20;
  return static_cast<std::uint8_t>(sign | (magnitude < kNormal ? small : usual));
}

}  // namespace

void quantize_row_fp8(const float* w, std::size_t k, std::uint8_t* values, float* scale) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < k; ++i) {
    const std::uint32_t magnitude = bits_of(w[i]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  if (most >= kInfinity || float_of(most) < kSmallest) {
    std::memset(values, 0, k);
    *scale = most >= kInfinity ? float_of(0x7fc00000u) : 0.0f;
    return;
  }
  *scale = float_of(most) / kLargest;
  const float inverse = kLargest / float_of(most);
  for (std::size_t i = 0; i < k; ++i) values[i] = to_e4m3(w[i] * inverse);
}

}  // namespace mortise::cpu
