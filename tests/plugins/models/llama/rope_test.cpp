#include "models/llama/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace mortise::llama {
namespace {

Rope rope_of(RopeScaling scaling, double theta, double factor) {
  Rope rope;
  rope.scaling = scaling;
  rope.theta = theta;
  rope.factor = factor;
  rope.original_max_positions = 8192;
  return rope;
}

// Expected: LlamaRotaryEmbedding(config).inv_freq of transformers 5.23 with torch 2.x on x86-64, head_dim 16.
TEST(InverseFrequencies, AreBitEqualToThoseOfTransformers) {
  EXPECT_EQ(inverse_frequencies(rope_of(RopeScaling::kNone, 10000.0, 1.0), 16),
            (std::vector<float>{0x1.0p+0f, 0x1.43d136p-2f, 0x1.99999ap-4f, 0x1.030dc6p-5f, 0x1.47ae14p-7f,
                                0x1.9e7c7p-9f, 0x1.0624dep-10f, 0x1.4b96cp-12f}));
  EXPECT_EQ(inverse_frequencies(rope_of(RopeScaling::kLinear, 1e6, 3.0), 16),
            (std::vector<float>{0x1.555556p-2f, 0x1.e596bep-5f, 0x1.5967b2p-7f, 0x1.eb61ap-10f, 0x1.5d867ep-12f,
                                0x1.f13e32p-15f, 0x1.61b1dap-17f, 0x1.f72caep-20f}));
  EXPECT_EQ(inverse_frequencies(rope_of(RopeScaling::kLlama3, 5e5, 8.0), 16),
            (std::vector<float>{0x1.0p+0f, 0x1.8d276p-3f, 0x1.34119p-5f, 0x1.ddee9ep-8f, 0x1.132ba4p-11f,
                                0x1.1f91fp-15f, 0x1.be2188p-18f, 0x1.5a0f4ep-20f}));
}

// Expected: the same of transformers 5.24.
TEST(InverseFrequencies, OfYarnAreBitEqualToThoseOfTransformers) {
  Rope yarn = rope_of(RopeScaling::kYarn, 1e6, 4.0);
  EXPECT_EQ(inverse_frequencies(yarn, 16),
            (std::vector<float>{0x1.0p+0f, 0x1.6c310ep-3f, 0x1.030dc6p-5f, 0x1.1466eap-8f, 0x1.0624dep-11f,
                                0x1.74eea6p-15f, 0x1.094564p-17f, 0x1.796182p-20f}));
  yarn = rope_of(RopeScaling::kYarn, 1000.0, 3.0);
  yarn.original_max_positions = 64;
  yarn.truncate = false;
  yarn.beta_fast = 8;
  yarn.beta_slow = 2;
  EXPECT_EQ(inverse_frequencies(yarn, 16),
            (std::vector<float>{0x1.0p+0f, 0x1.2eac1ep-2f, 0x1.e596bep-5f, 0x1.998acep-6f, 0x1.5967bp-7f,
                                0x1.234fecp-8f, 0x1.eb61ap-10f, 0x1.9e6d78p-11f}));
}

TEST(InverseFrequencies, FactorsDivideThem) {
  Rope rope = rope_of(RopeScaling::kNone, 10000.0, 1.0);
  const std::vector<float> plain = inverse_frequencies(rope, 8);
  rope.scaling = RopeScaling::kFactors;
  rope.factors = {1.0f, 3.0f, 8.0f, 8.0f};
  EXPECT_EQ(inverse_frequencies(rope, 8),
            (std::vector<float>{plain[0], plain[1] / 3.0f, plain[2] / 8.0f, plain[3] / 8.0f}));
}

TEST(RopeTable, RowsHoldSineAndCosineOfTheRoundedAngle) {
  const std::vector<float> frequencies = inverse_frequencies(rope_of(RopeScaling::kNone, 10000.0, 1.0), 64);
  std::vector<float> cos(100 * 32), sin(100 * 32);
  fill_rope_rows(frequencies, 1.0f, 131000, 131100, cos.data(), sin.data());
  for (int p = 0; p < 100; ++p) {
    for (int i = 0; i < 32; ++i) {
      const float angle = static_cast<float>(131000 + p) * frequencies[i];
      EXPECT_EQ(cos[p * 32 + i], static_cast<float>(std::cos(double{angle})));
      EXPECT_EQ(sin[p * 32 + i], static_cast<float>(std::sin(double{angle})));
    }
  }
}

TEST(RopeTable, TheFactorMultipliesSineAndCosine) {
  const std::vector<float> frequencies = inverse_frequencies(rope_of(RopeScaling::kNone, 10000.0, 1.0), 8);
  std::vector<float> plain(2 * 20), scaled(2 * 20);
  fill_rope_rows(frequencies, 1.0f, 3, 8, plain.data(), plain.data() + 20);
  fill_rope_rows(frequencies, 1.138629f, 3, 8, scaled.data(), scaled.data() + 20);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] * 1.138629f);
}

TEST(RopeTable, RowsDoNotDependOnWhereTheTableIsCut) {
  const std::vector<float> frequencies = inverse_frequencies(rope_of(RopeScaling::kLlama3, 5e5, 8.0), 8);
  std::vector<float> whole(2 * 40), parts(2 * 40);
  fill_rope_rows(frequencies, 1.0f, 0, 10, whole.data(), whole.data() + 40);
  fill_rope_rows(frequencies, 1.0f, 0, 3, parts.data(), parts.data() + 40);
  fill_rope_rows(frequencies, 1.0f, 3, 10, parts.data() + 12, parts.data() + 52);
  EXPECT_EQ(whole, parts);
}

}  // namespace
}  // namespace mortise::llama
