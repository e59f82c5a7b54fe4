// How float weights become blocks of 32, against the scalar reference, and how scales are packed.
// Covers: plugins/kernels/cpu/linear_block32/pack
#include <cmath>

#include "linear_block32/linear_block32_problem.hpp"

namespace mortise::cpu {
namespace {

TEST(PackBlock32, QuantisesLikeTheReferenceBitByBit) {
  const DenormalsOff denormals_off;
  for (const int bits : {4, 8}) {
    for (const Values values : kAllValues) {
      for (const float factor : {1.0f, 0.01f, 1e-6f, 1e-7f, 1e7f}) {
        std::mt19937 rng(7);
        std::vector<float> w = random_values<float>(rng, 3 * 331, values);
        for (float& x : w) x *= factor;
        const auto want = reference::quantize_weights_block32(w, 3, 331, bits);
        const std::size_t groups = groups_of(331, 32), numbers = bits == 4 ? 2 : 1;
        for (std::size_t n = 0; n < 3; ++n) {
          std::vector<std::uint8_t> got(331);
          std::vector<float> factors(numbers * groups);
          quantize_row_block32(&w[n * 331], 331, format_of_floats(bits), got.data(), factors.data());
          EXPECT_EQ(got, std::vector<std::uint8_t>(&want.values[n * 331], &want.values[n * 331] + 331));
          for (std::size_t g = 0; g < groups; ++g) {
            const float scale = want.scales[n * groups + g], got_scale = factors[g * numbers];
            EXPECT_TRUE(scale == got_scale || (scale != scale && got_scale != got_scale)) << scale << " " << got_scale;
            if (bits == 8) continue;
            const float least = want.minima[n * groups + g], got_least = factors[g * 2 + 1];
            EXPECT_TRUE(least == got_least || (least != least && got_least != got_least)) << least << " " << got_least;
          }
        }
      }
    }
  }
}

TEST(PackBlock32, EveryHalfIsPackedAsItself) {
  const DenormalsOff denormals_off;
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    if ((h & 0x7c00u) == 0x7c00u && (h & 0x3ffu) != 0) continue;  // NaN
    const std::uint32_t magnitude = h & 0x7fffu;
    float x = static_cast<float>(std::ldexp(magnitude & 0x3ffu, -24));
    if (magnitude >= 0x400u) x = std::ldexp(1.0f + float(magnitude & 0x3ffu) / 1024, int(magnitude >> 10) - 15);
    if (magnitude == 0x7c00u) x = INFINITY;
    const float row[1] = {(h & 0x8000u) != 0 ? -x : x};
    const float* rows[kPanelColumns] = {row};
    F16 panel[kPanelColumns];
    ASSERT_TRUE(pack_factors(rows, 1, 1, true, panel)) << row[0];
    ASSERT_EQ(panel[0], h) << row[0];
  }
}

TEST(PackBlock32, ANumberThatIsNoHalfIsFound) {
  const DenormalsOff denormals_off;
  for (const float x : {1.0f + 0x1p-11f, 65520.0f, 1e30f, 0x1p-25f, 0x1.8p-24f, 1e-40f}) {
    const float row[2] = {1.0f, x};
    const float* rows[kPanelColumns] = {row};
    F16 panel[2 * kPanelColumns];
    EXPECT_FALSE(pack_factors(rows, 2, 1, true, panel)) << x;
    float wide[2 * kPanelColumns];
    EXPECT_TRUE(pack_factors(rows, 2, 1, false, wide)) << x;
  }
}

}  // namespace
}  // namespace mortise::cpu
