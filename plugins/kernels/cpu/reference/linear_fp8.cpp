#include "kernels/cpu/reference/linear_fp8.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

// Neither NaN nor infinite.
bool finite(float x) {
  return x - x == 0;
}

// Returns the E4M3 number nearest to x, ties to the even mantissa. REQUIRES: |x| is at most 448, or above it by
// rounding alone; the result is then 448.
std::uint8_t nearest_e4m3(float x) {
  static const std::array<double, 0x7f> numbers = [] {
    std::array<double, 0x7f> all = {};
    for (unsigned value = 0; value < 0x7f; ++value) all[value] = from_e4m3(static_cast<std::uint8_t>(value));
    return all;
  }();
  const double magnitude = std::fabs(double{x});
  std::size_t best = 0x7e;  // the first that is not smaller, or the largest
  if (magnitude < numbers[best]) {
    best = static_cast<std::size_t>(std::lower_bound(numbers.begin(), numbers.end(), magnitude) - numbers.begin());
  }
  if (best > 0 && magnitude < numbers[best]) {
    const double above = numbers[best] - magnitude, below = magnitude - numbers[best - 1];
    if (below < above || (below == above && best % 2 != 0)) --best;
  }
  return static_cast<std::uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

template <class X>
void multiply(const X* x, const Fp8Weight& w, const float* bias, float* y, std::size_t m) {
  const std::size_t group = w.group_size < w.k ? w.group_size : w.k, groups = (w.k + group - 1) / group;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t n = 0; n < w.n; ++n) {
      float acc = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t end = (g + 1) * group < w.k ? (g + 1) * group : w.k;
        float d = 0;
        for (std::size_t tile = g * group; tile < end; tile += 32) {
          float chains[2] = {0, 0};
          for (std::size_t k = tile; k < tile + 32; ++k) {
            float& chain = chains[k % 2];
            chain = k < end ? soft_fma(get(x[i * w.k + k]), from_e4m3(w.values[n * w.k + k]), chain)
                            : soft_fma(0, 0, chain);
          }
          d = d + (chains[0] + chains[1]);
        }
        acc = soft_fma(d, w.scales[n * groups + g], acc);
      }
      y[i * w.n + n] = canonical_nan(bias != nullptr ? acc + bias[n] : acc);
    }
  }
}

}  // namespace

float from_e4m3(std::uint8_t value) {
  const int exponent = value >> 3 & 15, mantissa = value & 7;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (value & 0x80) != 0 ? -magnitude : magnitude;
}

Fp8Weight quantize_fp8(const std::vector<float>& w, std::size_t n, std::size_t k) {
  Fp8Weight out = {n, k, k, std::vector<std::uint8_t>(n * k), std::vector<float>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    float most = 0;
    bool numbers = true;
    for (std::size_t j = 0; j < k; ++j) {
      numbers = numbers && finite(w[i * k + j]);
      if (std::fabs(w[i * k + j]) > most) most = std::fabs(w[i * k + j]);
    }
    const bool usual = numbers && most >= 0x1p-117f;
    out.scales[i] = usual ? most / 448.0f : numbers ? 0.0f : bit_cast_to<float>(0x7fc00000u);
    if (!usual) continue;
    for (std::size_t j = 0; j < k; ++j) out.values[i * k + j] = nearest_e4m3(w[i * k + j] * (448.0f / most));
  }
  return out;
}

void linear_fp8(const Bf16* x, const Fp8Weight& w, const float* bias, float* y, std::size_t m) {
  multiply(x, w, bias, y, m);
}
void linear_fp8(const float* x, const Fp8Weight& w, const float* bias, float* y, std::size_t m) {
  multiply(x, w, bias, y, m);
}

}  // namespace mortise::cpu::reference
