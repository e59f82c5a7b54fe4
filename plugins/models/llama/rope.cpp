#include "models/llama/rope.hpp"

#include <algorithm>
#include <cmath>

#include "models/llama/exact_math.hpp"

namespace mortise::llama {
namespace {

constexpr float kTwoPi = 6.283185307179586f;
constexpr double kPi = 0x1.921fb54442d18p+1;

// Llama 3 divides the frequencies of long wavelengths by `factor`, keeps those of short ones, and interpolates between.
float llama3_scaled(float frequency, const Rope& rope) {
  const float factor = static_cast<float>(rope.factor);
  const float old_length = static_cast<float>(rope.original_max_positions);
  const float longest_kept = static_cast<float>(rope.original_max_positions / rope.high_freq_factor);
  const float shortest_stretched = static_cast<float>(rope.original_max_positions / rope.low_freq_factor);
  // As torch does: it evaluates `number / tensor` as the reciprocal of the tensor times the number.
  const float wavelength = (1.0f / frequency) * kTwoPi;
  if (wavelength > shortest_stretched) return frequency / factor;
  if (wavelength < longest_kept) return frequency;
  const float range = static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  const float smooth = ((1.0f / wavelength) * old_length - static_cast<float>(rope.low_freq_factor)) / range;
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

// YaRN (arXiv:2309.00071) keeps the frequencies of the first pairs, which turn often within the original length,
// divides those of the last ones by `factor`, and interpolates on a ramp between.
struct YarnRamp {
  float begin, length;  // in pairs
  float share_of(std::size_t pair) const { return std::clamp((static_cast<float>(pair) - begin) / length, 0.0f, 1.0f); }
};
YarnRamp yarn_ramp(const Rope& rope, int32_t head_dim) {
  // The pair that turns `rotations` times.
  const auto pair_of = [&](double rotations) {
    return head_dim * log2_of(rope.original_max_positions / (rotations * 2 * kPi)) / (2 * log2_of(rope.theta));
  };
  double begin = pair_of(rope.beta_fast), end = pair_of(rope.beta_slow);
  if (rope.truncate) begin = std::floor(begin), end = std::ceil(end);
  begin = std::max(begin, 0.0), end = std::min(end, head_dim - 1.0);
  if (static_cast<float>(end - begin) == 0) end = begin + 0.001;
  return {static_cast<float>(begin), static_cast<float>(end - begin)};
}

}  // namespace

std::vector<float> inverse_frequencies(const Rope& rope, int32_t head_dim) {
  std::vector<float> frequencies(static_cast<std::size_t>(head_dim / 2));
  const double base = static_cast<float>(rope.theta);
  const float factor = static_cast<float>(rope.factor);
  const YarnRamp ramp = rope.scaling == RopeScaling::kYarn ? yarn_ramp(rope, head_dim) : YarnRamp{};
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const float wavelength = static_cast<float>(power(base, exponent));  // without 2 pi
    const float frequency = 1.0f / wavelength;
    switch (rope.scaling) {
      case RopeScaling::kNone:
        frequencies[i] = frequency;
        break;
      case RopeScaling::kLinear:
        frequencies[i] = frequency / factor;
        break;
      case RopeScaling::kFactors:
        frequencies[i] = frequency / rope.factors[i];
        break;
      case RopeScaling::kLlama3:
        frequencies[i] = llama3_scaled(frequency, rope);
        break;
      case RopeScaling::kYarn: {
        const float kept = 1.0f - ramp.share_of(i);
        frequencies[i] = (1.0f / (factor * wavelength)) * (1.0f - kept) + frequency * kept;
        break;
      }
    }
  }
  return frequencies;
}

void fill_rope_rows(const std::vector<float>& frequencies, float factor, int64_t begin, int64_t end, float* cos,
                    float* sin) {
  for (int64_t position = begin; position < end; ++position) {
    for (const float frequency : frequencies) {
      const SinCos value = sin_cos(static_cast<float>(position) * frequency);
      *cos++ = static_cast<float>(value.cos) * factor;
      *sin++ = static_cast<float>(value.sin) * factor;
    }
  }
}

}  // namespace mortise::llama
