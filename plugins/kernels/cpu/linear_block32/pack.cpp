#include "kernels/cpu/linear_block32/pack.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mortise::cpu {
namespace {

// Adding and subtracting it rounds |x| < 2^22 to the nearest integer, ties to even.
constexpr float kRounder = 0x1.8p23f;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargestHalf = 65504;
constexpr float kSmallestNormalHalf = 0x1p-14f;

float nearest(float x) {
  return (x + kRounder) - kRounder;
}

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
float magnitude(float x) {
  return float_of(bits_of(x) & 0x7fffffffu);
}

// Rounds to the nearest f16, ties to even. Beyond f16 the result is infinite or NaN. Does not depend on whether
// denormals are on: an f32 denormal becomes 0 either way.
float rounded_to_half(float x) {
  const float a = magnitude(x);
  if (a < kSmallestNormalHalf) {
    // A multiple of 2^-24. The two operations are exact but for the rounding.
    const float steps = nearest(a * 0x1p24f) * 0x1p-24f;
    return float_of(bits_of(steps) | (bits_of(x) & 0x80000000u));
  }
  const std::uint32_t u = bits_of(x);
  const float r = float_of((u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu);
  return magnitude(r) <= kLargestHalf ? r : kNan;
}

// The f16 equal to x; with *exact false if there is none.
F16 half_of(float x, bool* exact) {
  const std::uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u;
  const float a = magnitude(x);
  if (x != x) return static_cast<F16>(sign | 0x7e00u);
  if (a > kLargestHalf) {
    *exact = *exact && a > std::numeric_limits<float>::max();
    return static_cast<F16>(sign | 0x7c00u);
  }
  if (rounded_to_half(x) != x || (u << 1 != 0 && a < 0x1p-24f)) *exact = false;
  if (a < kSmallestNormalHalf) return static_cast<F16>(sign | static_cast<std::uint32_t>(a * 0x1p24f));
  return static_cast<F16>(sign | ((u & 0x7fffffffu) - (112u << 23)) >> 13);
}

// The smallest and the largest of `count` numbers. NaN: one of them is NaN or infinite.
struct Range {
  float low, high;
};

Range range_of(const float* w, std::size_t count) {
  float low = w[0], high = w[0];
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    low = w[i] < low ? w[i] : low;
    high = w[i] > high ? w[i] : high;
    most = std::max(most, bits_of(w[i]) & 0x7fffffffu);
  }
  return most < 0x7f800000u ? Range{low, high} : Range{kNan, kNan};
}

// Values of the numbers (w - from) / scale, between `least` and `most`, plus `zero`.
void write_values(const float* w, std::size_t count, float from, float scale, float least, float most, float zero,
                  std::uint8_t* values) {
  if (!(scale > 0)) {
    std::memset(values, static_cast<int>(zero), count);
    return;
  }
  const float inverse = 1.0f / scale;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = nearest((w[i] - from) * inverse);
    const float clamped = value < least ? least : value > most ? most : value;
    values[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(clamped + zero));
  }
}

void quantize_group8(const float* w, std::size_t count, std::uint8_t* values, float* factors) {
  const Range range = range_of(w, count);
  const float most = std::max(magnitude(range.low), magnitude(range.high));
  factors[0] = rounded_to_half(most / 127.0f);
  write_values(w, count, 0.0f, factors[0], -127, 127, 128, values);
}

void quantize_group4(const float* w, std::size_t count, std::uint8_t* values, float* factors) {
  const Range range = range_of(w, count);
  const float low = rounded_to_half(range.low), width = range.high - low;
  factors[0] = rounded_to_half((width < 0 ? 0 : width) / 15.0f);
  factors[1] = low;
  write_values(w, count, low, factors[0], 0, 15, 0, values);
}

}  // namespace

std::size_t packed_factor_bytes(std::size_t n, std::size_t groups, bool half) {
  return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * groups * (half ? sizeof(F16) : sizeof(float));
}

bool pack_factors(const float* const (&rows)[kPanelColumns], std::size_t groups, std::size_t stride, bool half,
                  void* panel) {
  bool exact = true;
  for (std::size_t n = 0; n < kPanelColumns; ++n) {
    for (std::size_t g = 0; g < groups; ++g) {
      const float factor = rows[n] == nullptr ? 0.0f : rows[n][g * stride];
      const std::size_t at = g * kPanelColumns + n;
      if (half) {
        static_cast<F16*>(panel)[at] = half_of(factor, &exact);
      } else {
        static_cast<float*>(panel)[at] = factor;
      }
    }
  }
  return exact;
}

void quantize_row_block32(const float* w, std::size_t k, const Block32Format& format, std::uint8_t* values,
                          float* factors) {
  for (std::size_t first = 0; first < k; first += kBlock32) {
    const std::size_t count = std::min(kBlock32, k - first);
    if (format.bits == 4) {
      quantize_group4(w + first, count, values + first, factors);
      factors += 2;
    } else {
      quantize_group8(w + first, count, values + first, factors++);
    }
  }
}

}  // namespace mortise::cpu
