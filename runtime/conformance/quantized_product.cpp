#include "conformance/quantized_product.hpp"

#include <algorithm>
#include <cmath>

#include "mortise/numerics.h"
#include "sampling/denormals_off.hpp"

namespace mortise::conformance {
namespace {

// A row of whole numbers with scales: w[n, j] = scale[n, g] * value[n, j]. Zero points are already subtracted.
struct IntegerRow {
  std::vector<std::int32_t> values;
  std::vector<float> scales;  // of each group
};

float nearest(float x) {
  return static_cast<float>(mortise_nearest(x));
}

float largest_magnitude(const float* x, std::size_t n) {
  float largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

IntegerRow int8_row(const std::vector<float>& w) {
  const float a = largest_magnitude(w.data(), w.size());
  IntegerRow row{std::vector<std::int32_t>(w.size()), {0}};
  if (a < 0x1p-119f) return row;
  const float inverse = 127 / a;
  row.scales[0] = a / 127;
  for (std::size_t j = 0; j < w.size(); ++j) row.values[j] = static_cast<std::int32_t>(nearest(w[j] * inverse));
  return row;
}

IntegerRow int4_row(const std::vector<float>& w, std::size_t group_size) {
  IntegerRow row;
  for (std::size_t begin = 0; begin < w.size(); begin += group_size) {
    const std::size_t end = std::min(begin + group_size, w.size());
    const auto [smallest, largest] = std::minmax_element(w.begin() + static_cast<std::ptrdiff_t>(begin),
                                                         w.begin() + static_cast<std::ptrdiff_t>(end));
    const float low = std::min(0.0f, *smallest), high = std::max(0.0f, *largest), range = high - low;
    const bool is_zero = range < 0x1p-119f;
    const float inverse = is_zero ? 0 : 15 / range;
    const float zero = nearest(-low * inverse);
    row.scales.push_back(is_zero ? 0 : range / 15);
    for (std::size_t j = begin; j < end; ++j) {
      const float value = std::clamp(nearest(w[j] * inverse) + zero, 0.0f, 15.0f);
      row.values.push_back(static_cast<std::int32_t>(value - zero));
    }
  }
  return row;
}

Product integer_product(std::vector<IntegerRow> rows, std::size_t group_size) {
  return [rows = std::move(rows), group_size](const std::vector<float>& x) {
    const IntegerRow q = int8_row(x);  // activations are made int8 in the same way
    std::vector<float> y;
    for (const IntegerRow& w : rows) {
      float acc = 0;
      for (std::size_t g = 0; g < w.scales.size(); ++g) {
        std::int32_t dot = 0;
        const std::size_t end = std::min((g + 1) * group_size, x.size());
        for (std::size_t j = g * group_size; j < end; ++j) dot += q.values[j] * w.values[j];
        const float term = static_cast<float>(dot) * w.scales[g];
        acc = acc + term;
      }
      y.push_back(acc * q.scales[0]);
    }
    return y;
  };
}

// A row of weights in blocks of 32: w[n, j] = scale[g] * value[j] + minimum[g].
struct Block32Row {
  std::vector<std::int32_t> values;
  std::vector<float> scales, minima;
};

constexpr std::size_t kBlock = 32;

// Rounds to f16, ties to even. REQUIRES: x is within f16.
float nearest_half(float x) {
  const int exponent = x == 0 ? -24 : std::ilogb(x);
  const float step = std::ldexp(1.0f, std::max(exponent - 10, -24));
  return nearest(x / step) * step;
}

Block32Row block32_row(const std::vector<float>& w, std::int32_t bits) {
  Block32Row row;
  for (std::size_t begin = 0; begin < w.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, w.size());
    const auto [smallest, largest] = std::minmax_element(w.begin() + static_cast<std::ptrdiff_t>(begin),
                                                         w.begin() + static_cast<std::ptrdiff_t>(end));
    const float minimum = bits == 4 ? nearest_half(*smallest) : 0;
    const float range = bits == 4 ? std::max(0.0f, *largest - minimum) : largest_magnitude(&w[begin], end - begin);
    const float scale = nearest_half(range / (bits == 4 ? 15 : 127));
    row.scales.push_back(scale);
    row.minima.push_back(minimum);
    for (std::size_t j = begin; j < end; ++j) {
      const float value = scale > 0 ? nearest((w[j] - minimum) * (1 / scale)) : 0;
      row.values.push_back(
          static_cast<std::int32_t>(std::clamp(value, bits == 4 ? 0.0f : -127.0f, bits == 4 ? 15.0f : 127.0f)));
    }
  }
  return row;
}

// One output: x is one block after another, each with a scale of its own.
float block32_sum(const Block32Row& w, const std::vector<float>& x, bool has_minima) {
  float acc = 0;
  for (std::size_t g = 0; g < w.scales.size(); ++g) {
    const std::size_t begin = g * kBlock, end = std::min(begin + kBlock, x.size());
    const IntegerRow q =
        int8_row({x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end)});
    std::int32_t dot = 0, sum = 0;
    for (std::size_t j = begin; j < end; ++j) {
      dot += q.values[j - begin] * w.values[j];
      sum += q.values[j - begin];
    }
    const float scale = w.scales[g] * q.scales[0];
    acc = mortise_fma(static_cast<float>(dot), scale, acc);
    const float weight_of_minimum = q.scales[0] * static_cast<float>(sum);
    if (has_minima) acc = mortise_fma(w.minima[g], weight_of_minimum, acc);
  }
  return acc;
}

// Returns the value of an E4M3 number that is not NaN.
float e4m3(std::uint32_t bits) {
  const auto mantissa = static_cast<float>(bits & 7u);
  const auto exponent = static_cast<int>(bits >> 3 & 15u);
  const float magnitude = exponent == 0 ? mantissa * 0x1p-9f : std::ldexp(1 + mantissa / 8, exponent - 7);
  return (bits & 0x80u) != 0 ? -magnitude : magnitude;
}

// Returns the nearest E4M3 number, ties to the even mantissa. REQUIRES: |x| <= 448.
float nearest_e4m3(float x) {
  std::uint32_t best = 0;
  for (std::uint32_t bits = 1; bits < 0x7f; ++bits) {
    const float now = std::fabs(e4m3(bits) - std::fabs(x)), before = std::fabs(e4m3(best) - std::fabs(x));
    if (now < before || (now == before && bits % 2 == 0)) best = bits;
  }
  return mortise_with_sign_of(e4m3(best), x);
}

Product float_product(FloatRows weight) {
  return [weight = std::move(weight)](const std::vector<float>& x) {
    std::vector<float> y;
    for (const auto& w : weight) y.push_back(mortise_dot(x.data(), w.data(), static_cast<std::int64_t>(x.size())));
    return y;
  };
}

}  // namespace

Product int8_product(const FloatRows& weight) {
  const DenormalsOff denormals_off;
  std::vector<IntegerRow> rows;
  for (const auto& w : weight) rows.push_back(int8_row(w));
  return integer_product(std::move(rows), weight[0].size());
}

Product int4_product(const FloatRows& weight, std::int32_t group_size) {
  const DenormalsOff denormals_off;
  std::vector<IntegerRow> rows;
  for (const auto& w : weight) rows.push_back(int4_row(w, static_cast<std::size_t>(group_size)));
  return integer_product(std::move(rows), static_cast<std::size_t>(group_size));
}

Product block32_product(const FloatRows& weight, std::int32_t bits) {
  const DenormalsOff denormals_off;
  std::vector<Block32Row> rows;
  for (const auto& w : weight) rows.push_back(block32_row(w, bits));
  return [rows = std::move(rows), bits](const std::vector<float>& x) {
    std::vector<float> y;
    for (const Block32Row& w : rows) y.push_back(block32_sum(w, x, bits == 4));
    return y;
  };
}

Product fp8_product(const FloatRows& weight) {
  const DenormalsOff denormals_off;
  FloatRows values;
  std::vector<float> scales;
  for (const auto& w : weight) {
    const float a = largest_magnitude(w.data(), w.size());
    const bool is_zero = a < 0x1p-117f;
    const float inverse = is_zero ? 0 : 448 / a;
    scales.push_back(is_zero ? 0 : a / 448);
    values.emplace_back();
    for (const float value : w) values.back().push_back(nearest_e4m3(std::clamp(value * inverse, -448.0f, 448.0f)));
  }
  return [product = float_product(std::move(values)), scales = std::move(scales)](const std::vector<float>& x) {
    std::vector<float> y = product(x);
    for (std::size_t n = 0; n < y.size(); ++n) y[n] = mortise_fma(y[n], scales[n], 0);
    return y;
  };
}

FloatRows mxfp4_rows(const FloatRows& weight) {
  constexpr std::size_t kGroup = 32;
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  FloatRows rows = weight;
  for (auto& row : rows) {
    for (std::size_t begin = 0; begin < row.size(); begin += kGroup) {
      const std::size_t end = std::min(begin + kGroup, row.size());
      const float most = largest_magnitude(&row[begin], end - begin);
      if (most == 0) continue;
      const int exponent = std::max(std::ilogb(most) - 2, -127);
      for (std::size_t j = begin; j < end; ++j) {
        const float x = std::ldexp(std::fabs(row[j]), -exponent);
        std::size_t best = 0;
        for (std::size_t value = 1; value < 8; ++value) {
          const float now = std::fabs(kNumbers[value] - x), before = std::fabs(kNumbers[best] - x);
          if (now < before || (now == before && value % 2 == 0)) best = value;
        }
        row[j] = mortise_with_sign_of(std::ldexp(kNumbers[best], exponent), row[j]);
      }
    }
  }
  return rows;
}

}  // namespace mortise::conformance
