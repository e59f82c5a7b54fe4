// linear_int in every form that this machine can run (and the AMX one on emulated tiles) against its scalar reference,
// bit by bit, and that one against a double loop.
// Covers: plugins/kernels/cpu/linear_int/{dot,rows,scale,step,sums} plugins/kernels/cpu/reference/linear_int
#include <cmath>

#include "linear_int/linear_int_problem.hpp"

namespace mortise::cpu {
#if defined(__x86_64__)
namespace isa_avx512 {
extern const LinearIntKernels kLinearIntKernels;
}
#endif
namespace isa_emulated_amx {
extern const LinearIntKernels kLinearIntKernels;
}
namespace {

struct Form {
  std::string name;
  const LinearIntKernels* kernels;
};

std::vector<Form> forms() {
  std::vector<Form> found = {{"emulated_amx", &isa_emulated_amx::kLinearIntKernels}};
  for (Isa isa : available_isas()) found.push_back({isa_name(isa), &kernels(isa).linear_int});
#if defined(__x86_64__)
  if (has_vnni()) found.push_back({"avx512_without_vnni", &isa_avx512::kLinearIntKernels});
#endif
  return found;
}

class KernelsLinearInt : public testing::TestWithParam<Form> {
 protected:
  const LinearIntKernels& kernels() const { return *GetParam().kernels; }
  DenormalsOff denormals_off_;
};
INSTANTIATE_TEST_SUITE_P(Isa, KernelsLinearInt, testing::ValuesIn(forms()),
                         [](const auto& info) { return info.param.name; });

std::vector<Bf16> rounded(const std::vector<float>& y) {
  std::vector<Bf16> r(y.size());
  std::transform(y.begin(), y.end(), r.begin(), float_to_bf16);
  return r;
}

TEST_P(KernelsLinearInt, EveryRowCountGivesTheBitsOfTheReference) {
  for (int bits : {4, 8}) {
    for (std::size_t m = 1; m <= 34; ++m) {
      const IntProblem<Bf16> p({m, 52, 160, bits, m % 2 == 0 ? 64u : 160u}, Values::kNormal, 17 + m, m % 3 == 0);
      EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape;
    }
  }
}

TEST_P(KernelsLinearInt, OddShapesAndGroupsGiveTheBitsOfTheReference) {
  for (int bits : {4, 8}) {
    for (std::size_t wanted : {32, 64, 128, 192, 0}) {
      for (const auto& [m, n, k] : {std::tuple<std::size_t, std::size_t, std::size_t>(1, 1, 1),
                                    {2, 17, 31},
                                    {5, 15, 32},
                                    {7, 16, 33},
                                    {3, 65, 96},
                                    {17, 48, 95},
                                    {31, 130, 544},
                                    {40, 31, 1100},
                                    {70, 100, 160},
                                    {100, 33, 72},
                                    {33, 16, 2500}}) {
        const std::size_t group = wanted == 0 ? k : wanted;
        const IntProblem<Bf16> p({m, n, k, bits, group}, Values::kNormal, 5);
        const auto y = expected(p);
        EXPECT_TRUE(same_bits(y, run<float>(kernels(), p))) << p.shape;
        EXPECT_TRUE(same_bits(rounded(y), run<Bf16>(kernels(), p))) << p.shape;
      }
    }
  }
}

TEST_P(KernelsLinearInt, ManyRowsGiveTheBitsOfTheReference) {
  for (int bits : {4, 8}) {
    for (std::size_t group : {std::size_t{64}, std::size_t{200}}) {
      const IntProblem<Bf16> p({300, 40, 200, bits, group}, Values::kNormal, 11);
      const auto y = expected(p);
      EXPECT_TRUE(same_bits(y, run<float>(kernels(), p))) << p.shape;
      EXPECT_TRUE(same_bits(rounded(y), run<Bf16>(kernels(), p))) << p.shape;
    }
  }
}

// Whole pairs of panels and what is left of them; K of one tile, of fewer tiles than there are rows, and of more;
// groups whose number is odd, even and one; blocks of fewer rows than a tile has; the second half of a tile of K empty.
TEST_P(KernelsLinearInt, EveryBlockingGivesTheBitsOfTheReference) {
  for (int bits : {4, 8}) {
    for (std::size_t wanted : {32, 64, 128, 0}) {
      for (std::size_t k : {20, 64, 96, 200, 288, 640}) {
        for (const auto& [m, n] :
             {std::pair<std::size_t, std::size_t>(16, 64), {32, 32}, {33, 70}, {70, 130}, {65, 48}}) {
          const std::size_t group = wanted == 0 ? k : wanted;
          const IntProblem<Bf16> p({m, n, k, bits, group}, Values::kNormal, 6, (m + n + k) % 4 != 0);
          const auto y = expected(p);
          EXPECT_TRUE(same_bits(y, run<float>(kernels(), p))) << p.shape;
          EXPECT_TRUE(same_bits(rounded(y), run<Bf16>(kernels(), p))) << p.shape;
        }
      }
    }
  }
}

// The weight has more columns than one chunk, which is multiplied by all rows before the next chunk begins.
TEST_P(KernelsLinearInt, ChunksOfColumnsGiveTheBitsOfTheReference) {
  for (int bits : {4, 8}) {
    const IntProblem<Bf16> p({35, 330, 4480, bits, bits == 4 ? 128u : 4480u}, Values::kNormal, 31);
    EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape;
  }
}

// Two panels of more than this are not unpacked on AMX.
TEST_P(KernelsLinearInt, ALongRowGivesTheBitsOfTheReference) {
  for (std::size_t k : {65536, 65600}) {
    const IntProblem<Bf16> p({33, 33, k, 4, 128}, Values::kNormal, 32);
    EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape;
  }
}

// 0 times a negative scale is -0, to which the sum over groups, begun at 0, adds.
TEST_P(KernelsLinearInt, ASumOfZeroIsPositive) {
  for (std::size_t m : {std::size_t{3}, std::size_t{20}}) {
    for (std::size_t group : {std::size_t{64}, std::size_t{128}}) {
      for (int bits : {4, 8}) {
        IntProblem<Bf16> p({m, 32, 128, bits, group}, Values::kNormal, 8, /*with_bias=*/false);
        std::fill(p.w.values.begin(), p.w.values.end(), std::uint8_t{9});
        std::fill(p.w.zeros.begin(), p.w.zeros.end(), std::uint8_t{9});
        for (float& scale : p.w.scales) scale = -std::fabs(scale);
        for (float y : run<float>(kernels(), p)) EXPECT_FALSE(y != 0 || std::signbit(y)) << p.shape;
      }
    }
  }
}

// All weights at an end of their range and all activations at +-127: what 16-bit sums would saturate at.
TEST_P(KernelsLinearInt, TheLargestSumsNeitherSaturateNorWrap) {
  for (int bits : {4, 8}) {
    for (std::size_t k : {std::size_t{64}, std::size_t{512}, kMaxGroup}) {
      IntProblem<float> p({k > 1000 ? 3u : 20u, 17, k, bits, k}, Values::kNormal, 3, false, false, Weights::kExtreme);
      for (std::size_t i = 0; i < p.x.size(); ++i) p.x[i] = i / k % 2 == 0 ? 1.0f : (i % 3 == 0 ? -1.0f : 1.0f);
      const int most = (1 << bits) - 1;
      // Column 0: every product has one sign, and the zero point is at the other end.
      for (std::size_t j = 0; j < k; ++j) p.w.values[j] = static_cast<std::uint8_t>(most);
      p.w.zeros[0] = 0;
      for (std::size_t j = 0; j < k; ++j) p.w.values[k + j] = 0;
      p.w.zeros[1] = static_cast<std::uint8_t>(most);
      EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape;
    }
  }
}

TEST_P(KernelsLinearInt, DenormalsOverflowInfinityAndNanGiveTheBitsOfTheReference) {
  for (Values values : kAllValues) {
    for (std::size_t m : {std::size_t{1}, std::size_t{20}}) {
      for (unsigned seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(testing::Message() << "values " << static_cast<int>(values) << " m " << m << " seed " << seed);
        const IntProblem<Bf16> p({m, 48, 160, seed % 2 == 0 ? 4 : 8, 32}, values, seed);
        EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p)));
        EXPECT_TRUE(same_bits(rounded(expected(p)), run<Bf16>(kernels(), p)));
        IntProblem<float> q({m, 48, 160, seed % 2 == 0 ? 4 : 8, 64}, values, seed);
        std::mt19937 rng(seed);
        q.w.scales = random_values<float>(rng, q.w.scales.size(), values);
        EXPECT_TRUE(same_bits(expected(q), run<float>(kernels(), q)));
        IntProblem<float> whole({m, 48, 160, seed % 2 == 0 ? 4 : 8, 160}, values, seed, seed < 2);
        whole.w.scales = random_values<float>(rng, whole.w.scales.size(), values);
        EXPECT_TRUE(same_bits(expected(whole), run<float>(kernels(), whole)));
        EXPECT_TRUE(same_bits(rounded(expected(whole)), run<Bf16>(kernels(), whole)));
      }
    }
  }
}

TEST_P(KernelsLinearInt, RowsNearTheSmallestScaleGiveTheBitsOfTheReference) {
  IntProblem<float> p({40, 16, 32, 8, 32}, Values::kNormal, 2, false);
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 32; ++j) p.x[i * 32 + j] = std::ldexp(p.x[i * 32 + j], -110 - static_cast<int>(i) / 2);
  }
  const auto y = expected(p);
  EXPECT_TRUE(same_bits(y, run<float>(kernels(), p)));
  EXPECT_NE(y.front(), 0.0f);
  EXPECT_EQ(y.back(), 0.0f);  // anything else: the problem does not reach the threshold
}

TEST_P(KernelsLinearInt, ActOrderGivesTheBitsOfTheReference) {
  for (std::size_t m : {1, 5, 40}) {
    const IntProblem<Bf16> p({m, 33, 200, 4, 32}, Values::kNormal, 4, true, /*with_order=*/true);
    EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << "m " << m;
    const IntProblem<float> q({m, 33, 200, 8, 128}, Values::kNormal, 4, true, /*with_order=*/true);
    EXPECT_TRUE(same_bits(expected(q), run<float>(kernels(), q))) << "m " << m;
  }
}

TEST_P(KernelsLinearInt, NoSplitOfTheWorkChangesABit) {
  const IntProblem<Bf16> p({100, 176, 200, 4, 64}, Values::kNormal, 9);
  const auto whole = run<float>(kernels(), p);
  for (std::size_t split_m : {std::size_t{32}, std::size_t{96}}) {
    for (std::size_t split_n : {std::size_t{16}, std::size_t{48}, std::size_t{160}}) {
      EXPECT_TRUE(same_bits(whole, run<float>(kernels(), p, split_m, split_n)));
    }
  }
}

TEST_P(KernelsLinearInt, ARowHasTheSameBitsAloneAndInEveryBatch) {
  for (int bits : {4, 8}) {
    const IntProblem<Bf16> p({64, 112, 330, bits, 128}, Values::kNormal, 21);
    const auto all = run<float>(kernels(), p);
    for (std::size_t m : {1, 2, 8, 9, 15, 16, 17, 32, 33}) {
      IntProblem<Bf16> part = p;
      part.shape.m = m;
      part.x.assign(p.x.end() - static_cast<std::ptrdiff_t>(m * p.shape.k), p.x.end());
      const auto y = run<float>(kernels(), part);
      EXPECT_TRUE(same_bits(all.data() + (64 - m) * p.shape.n, y.data(), y.size())) << "m " << m;
    }
  }
}

// What the reference computes is the product: the only errors are the rounding of x to sx / 2, and f32.
TEST(KernelsLinearIntReference, AgreesWithADoubleLoop) {
  DenormalsOff off;
  for (int bits : {4, 8}) {
    const IntProblem<Bf16> p({9, 37, 500, bits, 64}, Values::kNormal, 4, true, /*with_order=*/true);
    const auto y = expected(p);
    const auto [m, n, k, b, group] = p.shape;
    const std::size_t groups = groups_of(k, group);
    for (std::size_t i = 0; i < m; ++i) {
      double most = 0;
      for (std::size_t c = 0; c < k; ++c) most = std::max(most, std::fabs(double{bf16_to_float(p.x[i * k + c])}));
      for (std::size_t j = 0; j < n; ++j) {
        double sum = p.bias[j], magnitude = std::fabs(sum), weights = 0;
        for (std::size_t c = 0; c < k; ++c) {
          const std::size_t g = j * groups + c / group;
          const double weight = double{p.w.scales[g]} * (p.w.values[j * k + c] - p.w.zeros[g]);
          const double x = bf16_to_float(p.x[i * k + static_cast<std::size_t>(p.w.order[c])]);
          sum += x * weight, magnitude += std::fabs(x * weight), weights += std::fabs(weight);
        }
        EXPECT_NEAR(y[i * n + j], sum, most / 254 * weights * 1.001 + 30 * 0x1p-24 * magnitude);
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cpu
