// Quantisation of weights against its scalar reference, bit by bit, and what it must be true of.
#include <cmath>

#include "linear_int/linear_int_problem.hpp"

namespace mortise::cpu {
namespace {

reference::IntWeight quantized(const std::vector<float>& w, std::size_t n, std::size_t k, int bits, std::size_t group) {
  reference::IntWeight out = {n, k, group, {}, {}, {}, {}};
  const std::size_t groups = groups_of(k, group);
  out.values.resize(n * k), out.scales.resize(n * groups), out.zeros.resize(n * groups);
  for (std::size_t i = 0; i < n; ++i) {
    quantize_row(&w[i * k], k, {bits, group}, &out.values[i * k], &out.scales[i * groups], &out.zeros[i * groups]);
  }
  return out;
}

TEST(KernelsLinearIntPack, QuantizedRowsHaveTheBitsOfTheReference) {
  const DenormalsOff off;
  for (Values values : kAllValues) {
    for (int bits : {4, 8}) {
      for (const auto& [k, group] :
           {std::pair<std::size_t, std::size_t>(1, 32), {100, 32}, {256, 64}, {300, 128}, {500, 32768}}) {
        SCOPED_TRACE(testing::Message() << "values " << static_cast<int>(values) << " bits " << bits << " k " << k);
        std::mt19937 rng(7);
        auto w = random_values<float>(rng, 40 * k, values);
        std::fill_n(w.begin(), k, 0.0f);
        for (std::size_t j = 0; j < k; ++j) w[k + j] = std::fabs(w[k + j]), w[2 * k + j] = -std::fabs(w[2 * k + j]);
        const auto ours = quantized(w, 40, k, bits, group);
        const auto theirs = reference::quantize_weights(w, 40, k, bits, group);
        EXPECT_EQ(ours.values, theirs.values);
        EXPECT_EQ(ours.zeros, theirs.zeros);
        for (std::size_t i = 0; i < ours.scales.size(); ++i) {
          const float a = ours.scales[i], b = theirs.scales[i];
          EXPECT_TRUE(a == b || (a != a && b != b)) << i << ": " << a << " " << b;
        }
      }
    }
  }
}

TEST(KernelsLinearIntPack, EachWeightIsHalfAStepFromItsValue) {
  const DenormalsOff off;
  std::mt19937 rng(8);
  const auto w = random_values<float>(rng, 8 * 320);
  for (int bits : {4, 8}) {
    const auto q = quantized(w, 8, 320, bits, 64);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const std::size_t g = i / 64;
      const float scale = q.scales[g];
      // 4 bits: the zero point is rounded too, so an end of the range may be a whole step away.
      EXPECT_LE(std::fabs(scale * static_cast<float>(q.values[i] - q.zeros[g]) - w[i]),
                scale * (bits == 4 ? 1.01f : 0.501f));
    }
  }
}

TEST(KernelsLinearIntPack, WhatLiesBeyondTheMatrixIsZero) {
  std::mt19937 rng(9);
  for (int bits : {4, 8}) {
    std::vector<std::uint8_t> w(3 * 70);
    for (auto& value : w) value = static_cast<std::uint8_t>(rng() % (1u << bits));
    const std::uint8_t* rows[kPanelColumns] = {&w[0], nullptr, &w[70], &w[140]};
    AlignedBuffer<std::uint8_t> panel(packed_bytes_int(16, 70, bits));
    pack_panel_int(rows, 70, bits, panel.data());
    for (std::size_t n = 0; n < kPanelColumns; ++n) {
      for (std::size_t k = 0; k < 128; ++k) {
        const std::size_t byte = bits == 8 ? k / 4 * 64 + n * 4 + k % 4 : k / 8 * 64 + n * 4 + k % 4;
        const int value = bits == 8 ? panel.data()[byte] : panel.data()[byte] >> (k % 8 / 4 * 4) & 15;
        EXPECT_EQ(value, rows[n] != nullptr && k < 70 ? rows[n][k] : 0) << "n " << n << " k " << k;
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cpu
