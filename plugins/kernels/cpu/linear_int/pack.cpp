#include "kernels/cpu/linear_int/pack.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mortise::cpu {
namespace {

constexpr std::size_t kDepth = 64;      // K is padded to a multiple of it
constexpr float kSmallest = 0x1p-119f;  // with a smaller range, a scale would be a denormal
// Adding and subtracting it rounds |x| < 2^22 to the nearest integer, ties to even.
constexpr float kRounder = 0x1.8p23f;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

std::size_t depth_of(std::size_t k) {
  return (k + kDepth - 1) / kDepth * kDepth;
}

float nearest(float x) {
  return (x + kRounder) - kRounder;
}

// The largest |w|; infinity if an element is NaN or infinite.
float largest_magnitude(const float* w, std::size_t count) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t u;
    std::memcpy(&u, w + i, sizeof u);
    most = std::max(most, u & 0x7fffffffu);
  }
  most = std::min(most, 0x7f800000u);
  float magnitude;
  std::memcpy(&magnitude, &most, sizeof magnitude);
  return magnitude;
}

struct Group {
  float scale;
  std::uint8_t zero;
};

// A group without range (zeros, or not finite): all values are the zero point. The scale is 0 or NaN.
Group constant_group(float range, std::uint8_t zero, std::size_t count, std::uint8_t* values) {
  std::memset(values, zero, count);
  return {range <= kLargest ? 0.0f : kNan, zero};
}

Group quantize_group8(const float* w, std::size_t count, std::uint8_t* values) {
  constexpr float kSteps = 127, kZero = 128;
  const float most = largest_magnitude(w, count);
  if (!(most >= kSmallest && most <= kLargest)) return constant_group(most, 128, count, values);
  const float inverse = kSteps / most;
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(nearest(w[i] * inverse) + kZero));
  }
  return {most / kSteps, 128};
}

Group quantize_group4(const float* w, std::size_t count, std::uint8_t* values) {
  constexpr float kSteps = 15;
  float low = 0, high = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // Flushes denormals in code, because some machines cannot turn them off.
    const float x = std::fabs(w[i]) < std::numeric_limits<float>::min() ? 0.0f : w[i];
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  const float most = largest_magnitude(w, count), range = most <= kLargest ? high - low : most;
  if (!(range >= kSmallest && range <= kLargest)) return constant_group(range, 0, count, values);
  const float inverse = kSteps / range;
  const float zero = nearest(-low * inverse);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = nearest(w[i] * inverse) + zero;
    const float clamped = value < 0 ? 0 : value > kSteps ? kSteps : value;
    values[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(clamped));
  }
  return {range / kSteps, static_cast<std::uint8_t>(static_cast<std::int32_t>(zero))};
}

// out[quad][n] = 4 k of row n: a transposition of words.
void pack_bytes(const std::uint8_t* const (&rows)[kPanelColumns], std::uint8_t* out) {
  for (std::size_t n = 0; n < kPanelColumns; ++n) {
    const std::uint8_t* row = rows[n];
    for (std::size_t quad = 0; quad < kDepth / 4; ++quad) std::memcpy(out + quad * 64 + n * 4, row + quad * 4, 4);
  }
}

void pack_nibbles(const std::uint8_t* const (&rows)[kPanelColumns], std::uint8_t* out) {
  for (std::size_t n = 0; n < kPanelColumns; ++n) {
    const std::uint8_t* row = rows[n];
    for (std::size_t octet = 0; octet < kDepth / 8; ++octet) {
      std::uint32_t low, high;
      std::memcpy(&low, row + octet * 8, sizeof low);
      std::memcpy(&high, row + octet * 8 + 4, sizeof high);
      const std::uint32_t word = low | high << 4;
      std::memcpy(out + octet * 64 + n * 4, &word, sizeof word);
    }
  }
}

}  // namespace

std::size_t packed_bytes_int(std::size_t n, std::size_t k, int bits) {
  return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * depth_of(k) * static_cast<std::size_t>(bits) / 8;
}

void pack_panel_int(const std::uint8_t* const (&rows)[kPanelColumns], std::size_t k, int bits, std::uint8_t* panel) {
  const auto pack = bits == 4 ? pack_nibbles : pack_bytes;
  const std::size_t block_bytes = kPanelColumns * kDepth * static_cast<std::size_t>(bits) / 8;
  static constexpr std::uint8_t kZeros[kDepth] = {};
  for (std::size_t first = 0; first < k; first += kDepth, panel += block_bytes) {
    const std::size_t depth = std::min(kDepth, k - first);
    std::uint8_t copies[kPanelColumns][kDepth];
    const std::uint8_t* sources[kPanelColumns];
    for (std::size_t n = 0; n < kPanelColumns; ++n) {
      sources[n] = rows[n] == nullptr ? kZeros : rows[n] + first;
      if (rows[n] == nullptr || depth == kDepth) continue;
      std::memset(copies[n], 0, kDepth);
      std::memcpy(copies[n], rows[n] + first, depth);
      sources[n] = copies[n];
    }
    pack(sources, panel);
  }
}

void quantize_row(const float* w, std::size_t k, const IntFormat& format, std::uint8_t* values, float* scales,
                  std::uint8_t* zeros) {
  const auto quantize_group = format.bits == 4 ? quantize_group4 : quantize_group8;
  for (std::size_t first = 0; first < k; first += std::min(format.group_size, k)) {
    const std::size_t count = std::min(format.group_size, k - first);
    const Group group = quantize_group(w + first, count, values + first);
    *scales++ = group.scale;
    *zeros++ = group.zero;
  }
}

}  // namespace mortise::cpu
