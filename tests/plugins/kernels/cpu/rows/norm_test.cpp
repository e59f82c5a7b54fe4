// Norms against their scalar reference, bit by bit, and that one against a double loop.
// Covers: plugins/kernels/cpu/reference/norm
#include "kernels/cpu/rows/norm.hpp"

#include <cmath>
#include <limits>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/norm.hpp"

namespace mortise::cpu {
namespace {

constexpr std::size_t kNormWidths[] = {1, 15, 16, 17, 31, 64, 100, 288, 1000};
constexpr std::size_t kRows = 3;
constexpr float kEps = 1e-5f;

class KernelsNorm : public OnEachIsa {
 protected:
  void call(bool layer, const NormArgs& args, Bf16) const {
    (layer ? kernels().norm.layer_norm_bf16 : kernels().norm.rms_norm_bf16)(args, 0, kRows);
  }
  void call(bool layer, const NormArgs& args, float) const {
    (layer ? kernels().norm.layer_norm_f32 : kernels().norm.rms_norm_f32)(args, 0, kRows);
  }

  // Rows are `pad` elements apart beyond their width; with `in_place` the output overwrites x.
  template <class T>
  void expect_bits_of_reference(std::size_t n, Values values, bool layer, bool with_residual, bool with_bias,
                                bool in_place) const {
    std::mt19937 rng(static_cast<unsigned>(n));
    const std::size_t stride = n + 3;
    auto x = random_values<T>(rng, kRows * stride, values);
    auto residual = random_values<T>(rng, kRows * stride, values);
    const auto weight = random_values<T>(rng, n), bias = random_values<T>(rng, n);
    std::vector<T> out = x;
    std::vector<T> x_expected = x, residual_expected = residual;
    for (std::size_t m = 0; m < kRows; ++m) {
      T* r = with_residual ? &residual_expected[m * stride] : nullptr;
      T* row = &x_expected[m * stride];
      if (layer) {
        reference::layer_norm<T>(row, r, weight.data(), with_bias ? bias.data() : nullptr, row, n, kEps);
      } else {
        reference::rms_norm<T>(row, r, weight.data(), row, n, kEps);
      }
    }
    std::vector<T>& y = in_place ? x : out;
    call(layer,
         NormArgs{x.data(), stride, with_residual ? residual.data() : nullptr, stride, weight.data(),
                  with_bias ? bias.data() : nullptr, y.data(), stride, n, kEps},
         T{});
    SCOPED_TRACE(testing::Message() << "width " << n << " values " << static_cast<int>(values) << " layer " << layer);
    EXPECT_TRUE(same_bits(x_expected, y));  // the padding included: nothing is written past the end of a row
    EXPECT_TRUE(same_bits(residual_expected, residual));
  }
};
MORTISE_ON_EACH_ISA(KernelsNorm);

TEST_P(KernelsNorm, RmsNormGivesTheBitsOfTheReference) {
  for (std::size_t n : kNormWidths) {
    for (Values values : kAllValues) {
      for (bool residual : {false, true}) {
        expect_bits_of_reference<Bf16>(n, values, false, residual, false, n % 2 == 0);
        expect_bits_of_reference<float>(n, values, false, residual, false, n % 2 == 0);
      }
    }
  }
}

TEST_P(KernelsNorm, LayerNormGivesTheBitsOfTheReference) {
  for (std::size_t n : kNormWidths) {
    for (Values values : kAllValues) {
      for (bool residual : {false, true}) {
        expect_bits_of_reference<Bf16>(n, values, true, residual, n % 3 != 0, n % 2 == 0);
        expect_bits_of_reference<float>(n, values, true, residual, n % 3 != 0, n % 2 == 0);
      }
    }
  }
}

// A sum of n squares in 16 lanes has relative error (ceil(n/16) + 4) u, half of it after the root; then four roundings.
TEST(KernelsNormReference, AgreesWithADoubleLoop) {
  DenormalsOff off;
  std::mt19937 rng(1);
  const std::size_t n = 700;
  const auto x = random_values<float>(rng, n), weight = random_values<float>(rng, n),
             bias = random_values<float>(rng, n);
  std::vector<float> rms(n), layer(n);
  reference::rms_norm<float>(x.data(), nullptr, weight.data(), rms.data(), n, kEps);
  reference::layer_norm<float>(x.data(), nullptr, weight.data(), bias.data(), layer.data(), n, kEps);
  double sum = 0, squares = 0, deviations = 0;
  for (float v : x) sum += v, squares += double{v} * v;
  const double mean = sum / n;
  for (float v : x) deviations += (v - mean) * (v - mean);
  const double tolerance = (n / 16.0 + 4 + 8) * 0x1p-24;
  for (std::size_t i = 0; i < n; ++i) {
    const double expected_rms = x[i] / std::sqrt(squares / n + kEps) * weight[i];
    EXPECT_NEAR(rms[i], expected_rms, tolerance * std::abs(expected_rms));
    const double scaled = (x[i] - mean) / std::sqrt(deviations / n + kEps) * weight[i];
    EXPECT_NEAR(layer[i], scaled + bias[i], tolerance * (std::abs(scaled) + std::abs(weight[i]) + std::abs(bias[i])));
  }
}

}  // namespace
}  // namespace mortise::cpu
