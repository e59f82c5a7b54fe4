#include "models/llama/rope.hpp"

#include "models/llama/exact_math.hpp"

namespace mortise::llama {
namespace {

constexpr float kTwoPi = 6.283185307179586f;

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

}  // namespace

std::vector<float> inverse_frequencies(const Rope& rope, int32_t head_dim) {
  std::vector<float> frequencies(static_cast<std::size_t>(head_dim / 2));
  const double base = static_cast<float>(rope.theta);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const float frequency = 1.0f / static_cast<float>(power(base, exponent));
    switch (rope.scaling) {
      case RopeScaling::kNone:
        frequencies[i] = frequency;
        break;
      case RopeScaling::kLinear:
        frequencies[i] = frequency / static_cast<float>(rope.factor);
        break;
      case RopeScaling::kLlama3:
        frequencies[i] = llama3_scaled(frequency, rope);
        break;
    }
  }
  return frequencies;
}

void fill_rope_rows(const std::vector<float>& frequencies, int64_t begin, int64_t end, float* cos, float* sin) {
  for (int64_t position = begin; position < end; ++position) {
    for (const float frequency : frequencies) {
      const SinCos value = sin_cos(static_cast<float>(position) * frequency);
      *cos++ = static_cast<float>(value.cos);
      *sin++ = static_cast<float>(value.sin);
    }
  }
}

}  // namespace mortise::llama
