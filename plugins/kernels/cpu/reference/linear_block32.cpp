#include "kernels/cpu/reference/linear_block32.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/reference/linear_int.hpp"
#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr std::size_t kBlock = 32;

float nan() {
  return bit_cast_to<float>(0x7fc00000u);
}

// The nearest f16 as a float, ties to even; NaN if it is beyond f16, or NaN.
float nearest_half(float x) {
  if (!(std::fabs(x) < 65520.0f)) return nan();
  int exponent;
  std::frexp(static_cast<double>(x), &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 11, -24));  // between neighbouring numbers
  return static_cast<float>(std::nearbyint(static_cast<double>(x) / step) * step);
}

bool all_finite(const float* w, std::size_t count) {
  return std::all_of(w, w + count, [](float x) { return x - x == 0; });
}

std::uint8_t value_of(float x, int least, int most, int zero) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(std::lrint(x)), least, most) + zero);
}

template <class X>
void multiply(const X* x, const Block32Weight& w, const float* bias, float* y, std::size_t m) {
  const std::size_t group = std::min(w.group_size, w.k), groups = (w.k + group - 1) / group;
  const std::size_t part = w.group_size == kBlock / 2 ? kBlock / 2 : kBlock;
  for (std::size_t i = 0; i < m; ++i) {
    std::vector<float> row(w.k);
    for (std::size_t j = 0; j < w.k; ++j) row[j] = get(x[i * w.k + j]);
    const bool finite = all_finite(row.data(), w.k);
    std::vector<int> q(w.k);
    std::vector<float> scales;
    for (std::size_t first = 0; first < w.k; first += kBlock) {
      const std::size_t end = std::min(first + kBlock, w.k);
      // The rule of a whole row in cpu-int8/1, for these columns alone.
      const IntRow block = quantize_activations(
          {row.begin() + static_cast<std::ptrdiff_t>(first), row.begin() + static_cast<std::ptrdiff_t>(end)});
      if (finite) std::copy(block.q.begin(), block.q.end(), q.begin() + static_cast<std::ptrdiff_t>(first));
      scales.push_back(finite ? block.scale : nan());
    }
    for (std::size_t n = 0; n < w.n; ++n) {
      float acc = 0;
      for (std::size_t first = 0; first < w.k; first += part) {
        const std::size_t g = n * groups + first / group;
        int dot = 0, sum = 0;
        for (std::size_t j = first; j < std::min(first + part, w.k); ++j) {
          dot += q[j] * (w.values[n * w.k + j] - w.zero);
          sum += q[j];
        }
        const float scale = scales[first / kBlock];
        acc = soft_fma(static_cast<float>(dot), w.scales[g] * scale, acc);
        if (!w.minima.empty()) acc = soft_fma(w.minima[g], scale * static_cast<float>(sum), acc);
      }
      y[i * w.n + n] = canonical_nan(bias != nullptr ? acc + bias[n] : acc);
    }
  }
}

}  // namespace

Block32Weight quantize_weights_block32(const std::vector<float>& w, std::size_t n, std::size_t k, int bits) {
  Block32Weight out = {n, k, kBlock, bits == 8 ? 128 : 0, std::vector<std::uint8_t>(n * k), {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t first = 0; first < k; first += kBlock) {
      const float* const from = &w[i * k + first];
      const std::size_t count = std::min(kBlock, k - first);
      const bool finite = all_finite(from, count);
      float low = finite ? *std::min_element(from, from + count) : nan();
      const float high = finite ? *std::max_element(from, from + count) : nan();
      float scale;
      if (bits == 8) {
        scale = nearest_half((std::fabs(low) > std::fabs(high) ? std::fabs(low) : std::fabs(high)) / 127.0f);
        low = 0;
      } else {
        low = nearest_half(low);
        const float width = high - low;
        scale = nearest_half((width < 0 ? 0.0f : width) / 15.0f);
        out.minima.push_back(low);
      }
      out.scales.push_back(scale);
      for (std::size_t j = 0; j < count; ++j) {
        std::uint8_t& value = out.values[i * k + first + j];
        if (!(scale > 0)) {
          value = static_cast<std::uint8_t>(out.zero);
        } else {
          value = value_of((from[j] - low) * (1.0f / scale), bits == 8 ? -127 : 0, bits == 8 ? 127 : 15, out.zero);
        }
      }
    }
  }
  return out;
}

void linear_block32(const Bf16* x, const Block32Weight& w, const float* bias, float* y, std::size_t m) {
  multiply(x, w, bias, y, m);
}
void linear_block32(const float* x, const Block32Weight& w, const float* bias, float* y, std::size_t m) {
  multiply(x, w, bias, y, m);
}

}  // namespace mortise::cpu::reference
