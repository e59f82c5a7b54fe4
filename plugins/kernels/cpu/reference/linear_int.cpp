#include "kernels/cpu/reference/linear_int.hpp"

#include <cmath>

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr float kSmallest = 0x1p-119f;

// Neither NaN nor infinite.
bool finite(float x) {
  return x - x == 0;
}
float nan() {
  return bit_cast_to<float>(0x7fc00000u);
}

// Nearest integer, ties to even (the rounding mode that DenormalsOff sets).
int nearest(float x) {
  return static_cast<int>(std::lrint(x));
}

// The largest magnitude, or NaN if an element is not finite. Denormals count as zero.
float largest(const float* x, std::size_t n) {
  float most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!finite(x[i])) return nan();
    if (std::fabs(x[i]) > most) most = std::fabs(x[i]);
  }
  return most;
}

void quantize_group8(const float* w, std::size_t count, std::uint8_t* values, float* scale, std::uint8_t* zero) {
  const float most = largest(w, count);
  *zero = 128;
  *scale = finite(most) ? (most < kSmallest ? 0.0f : most / 127.0f) : nan();
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint8_t>(*scale > 0 ? nearest(w[i] * (127.0f / most)) + 128 : 128);
  }
}

void quantize_group4(const float* w, std::size_t count, std::uint8_t* values, float* scale, std::uint8_t* zero) {
  float low = 0, high = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (w[i] < low) low = w[i];
    if (w[i] > high) high = w[i];
  }
  const float range = finite(largest(w, count)) ? high - low : nan();
  *scale = finite(range) ? (range < kSmallest ? 0.0f : range / 15.0f) : nan();
  *zero = static_cast<std::uint8_t>(*scale > 0 ? nearest(-low * (15.0f / range)) : 0);
  for (std::size_t i = 0; i < count; ++i) {
    int value = *scale > 0 ? nearest(w[i] * (15.0f / range)) + *zero : 0;
    if (value < 0) value = 0;
    if (value > 15) value = 15;
    values[i] = static_cast<std::uint8_t>(value);
  }
}

template <class X>
void multiply(const X* x, const IntWeight& w, const float* bias, float* y, std::size_t m) {
  const std::size_t group = w.group_size < w.k ? w.group_size : w.k, groups = (w.k + group - 1) / group;
  for (std::size_t i = 0; i < m; ++i) {
    std::vector<float> row(w.k);
    for (std::size_t j = 0; j < w.k; ++j) {
      row[j] = get(x[i * w.k + (w.order.empty() ? j : static_cast<std::size_t>(w.order[j]))]);
    }
    const IntRow quantized = quantize_activations(row);
    for (std::size_t n = 0; n < w.n; ++n) {
      float acc = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        long long dot = 0;
        for (std::size_t j = g * group; j < w.k && j < (g + 1) * group; ++j) {
          dot += static_cast<long long>(quantized.q[j]) * (w.values[n * w.k + j] - w.zeros[n * groups + g]);
        }
        acc = acc + soft_product(static_cast<float>(dot), w.scales[n * groups + g]);
      }
      acc = soft_product(acc, quantized.scale);
      y[i * w.n + n] = canonical_nan(bias != nullptr ? acc + bias[n] : acc);
    }
  }
}

}  // namespace

IntRow quantize_activations(const std::vector<float>& x) {
  const float most = largest(x.data(), x.size());
  IntRow row = {std::vector<int>(x.size()), finite(most) ? (most < kSmallest ? 0.0f : most / 127.0f) : nan()};
  if (!(row.scale > 0)) return row;
  for (std::size_t i = 0; i < x.size(); ++i) row.q[i] = nearest(x[i] * (127.0f / most));
  return row;
}

IntWeight quantize_weights(const std::vector<float>& w, std::size_t n, std::size_t k, int bits,
                           std::size_t group_size) {
  const std::size_t group = group_size < k ? group_size : k, groups = (k + group - 1) / group;
  IntWeight out = {n, k, group_size, {}, {}, {}, {}};
  out.values.resize(n * k), out.scales.resize(n * groups), out.zeros.resize(n * groups);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t at = i * k + g * group, count = k - g * group < group ? k - g * group : group;
      (bits == 4 ? quantize_group4 : quantize_group8)(&w[at], count, &out.values[at], &out.scales[i * groups + g],
                                                      &out.zeros[i * groups + g]);
    }
  }
  return out;
}

void linear_int(const Bf16* x, const IntWeight& w, const float* bias, float* y, std::size_t m) {
  multiply(x, w, bias, y, m);
}
void linear_int(const float* x, const IntWeight& w, const float* bias, float* y, std::size_t m) {
  multiply(x, w, bias, y, m);
}

}  // namespace mortise::cpu::reference
