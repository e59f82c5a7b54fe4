#include "kernels/cpu/reference/linear_mxfp4.hpp"

#include <cmath>

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr std::size_t kGroup = 32;
constexpr double kNumbers[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

}  // namespace

// By integers, because a denormal must stay what it is.
Bf16 widen_mxfp4(std::uint8_t value, std::uint8_t exponent) {
  const unsigned sign = (value & 8u) << 12, magnitude = value & 7u;
  if (magnitude == 0) return static_cast<Bf16>(sign);
  // 1 or 1.5 times a power of two: 0.5, 1, 1.5, 2, 3, 4, 6.
  const int power = magnitude == 1 ? -1 : static_cast<int>(magnitude / 2) - 1;
  const unsigned significand = magnitude % 2 == 1 && magnitude != 1 ? 0xc0u : 0x80u;
  const int biased = exponent + power;
  const unsigned bits =
      biased >= 1 ? static_cast<unsigned>(biased) << 7 | (significand & 0x7fu) : significand >> (1 - biased);
  return static_cast<Bf16>(sign | bits);
}

std::vector<Bf16> widen_mxfp4(const Mxfp4Weight& weight) {
  const std::size_t groups = (weight.k + kGroup - 1) / kGroup;
  std::vector<Bf16> out;
  for (std::size_t i = 0; i < weight.n * weight.k; ++i) {
    out.push_back(widen_mxfp4(weight.values[i], weight.exponents[i / weight.k * groups + i % weight.k / kGroup]));
  }
  return out;
}

std::vector<float> scales_of(const Mxfp4Weight& weight) {
  std::vector<float> out;
  for (const std::uint8_t exponent : weight.exponents) {
    out.push_back(bit_cast_to<float>(exponent == 0 ? 1u << 22 : std::uint32_t{exponent} << 23));
  }
  return out;
}

Mxfp4Weight quantize_mxfp4(const std::vector<float>& w, std::size_t n, std::size_t k) {
  Mxfp4Weight out = {n, k, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t first = 0; first < k; first += kGroup) {
      const std::size_t end = first + kGroup < k ? first + kGroup : k;
      double most = 0;
      for (std::size_t j = first; j < end; ++j) {
        const double magnitude = std::fabs(double{w[i * k + j]});
        if (magnitude >= 0x1p-126 && magnitude > most) most = magnitude;
      }
      const int exponent = most == 0 ? -127 : std::max(std::ilogb(most) - 2, -127);
      out.exponents.push_back(static_cast<std::uint8_t>(exponent + 127));
      for (std::size_t j = first; j < end; ++j) {
        const float x = w[i * k + j];
        const double scaled = std::fabs(double{x}) < 0x1p-126 ? 0 : std::ldexp(std::fabs(double{x}), -exponent);
        unsigned best = 0;
        for (unsigned value = 1; value < 8; ++value) {
          const double now = std::fabs(kNumbers[value] - scaled), before = std::fabs(kNumbers[best] - scaled);
          if (now < before || (now == before && value % 2 == 0)) best = value;
        }
        out.values.push_back(static_cast<std::uint8_t>(best | (std::signbit(x) ? 8u : 0u)));
      }
    }
  }
  return out;
}

}  // namespace mortise::cpu::reference
