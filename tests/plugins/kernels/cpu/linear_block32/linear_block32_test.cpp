// linear_block32 in every form that this machine can run against its scalar reference, bit by bit, and that one against
// a double loop.
// Covers: plugins/kernels/cpu/linear_block32/{linear_block32,amx,factors,rows,sums}
// Covers: plugins/kernels/cpu/reference/linear_block32
#include "linear_block32/linear_block32_problem.hpp"

#include <cmath>

namespace mortise::cpu {
namespace isa_emulated_amx {
extern const LinearBlock32Kernels kLinearBlock32Kernels;
}
#if defined(__x86_64__)
namespace isa_avx512 {
extern const LinearBlock32Kernels kLinearBlock32Kernels;
}
#endif
namespace {

struct Block32Form {
  std::string name;
  const LinearBlock32Kernels* kernels;
};

std::vector<Block32Form> block32_forms() {
  std::vector<Block32Form> found = {{"emulated_amx", &isa_emulated_amx::kLinearBlock32Kernels}};
  for (Isa isa : available_isas()) found.push_back({isa_name(isa), &kernels(isa).linear_block32});
#if defined(__x86_64__)
  if (has_vnni()) found.push_back({"avx512_without_vnni", &isa_avx512::kLinearBlock32Kernels});
#endif
  return found;
}

class KernelsLinearBlock32 : public testing::TestWithParam<Block32Form> {
 protected:
  const LinearBlock32Kernels& kernels() const { return *GetParam().kernels; }
  DenormalsOff denormals_off_;
};
INSTANTIATE_TEST_SUITE_P(Isa, KernelsLinearBlock32, testing::ValuesIn(block32_forms()),
                         [](const auto& info) { return info.param.name; });

std::vector<Bf16> narrowed(const std::vector<float>& y) {
  std::vector<Bf16> r(y.size());
  std::transform(y.begin(), y.end(), r.begin(), float_to_bf16);
  return r;
}

// The blocks of GGUF in 4 and 8 bits: Q4_0, Q4_1, Q8_0, Q5_1 and Q6_K as bytes, Q4_K; and what groups may be besides.
std::vector<Block32Format> formats(std::size_t k) {
  return {{4, 32, 8, false, true},   {4, 32, 0, true, true},    {8, 32, 128, false, true}, {8, 32, 0, true, true},
          {8, 16, 32, false, false}, {4, 32, 0, true, false},   {8, 32, 0, true, false},   {4, 16, 8, true, true},
          {4, 64, 8, false, true},   {8, 128, 255, true, true}, {4, k, 15, true, false},   {8, k, 128, false, false}};
}

TEST_P(KernelsLinearBlock32, EveryRowCountGivesTheBitsOfTheReference) {
  for (const Block32Format& format : formats(160)) {
    for (std::size_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 17, 32, 33, 49, 70}) {
      const Block32Problem<Bf16> p({m, 52, 160, format}, Values::kNormal, 17 + static_cast<unsigned>(m), m % 3 == 0);
      EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape;
    }
  }
}

TEST_P(KernelsLinearBlock32, OddShapesAndGroupsGiveTheBitsOfTheReference) {
  for (const auto& [m, n, k] : {std::tuple<std::size_t, std::size_t, std::size_t>(1, 1, 1),
                                {2, 17, 31},
                                {5, 15, 32},
                                {7, 16, 33},
                                {3, 65, 96},
                                {17, 48, 95},
                                {31, 130, 544},
                                {3, 31, 1100},
                                {4, 33, 80},
                                {3, 16, 8192 + 40}}) {
    for (const Block32Format& format : formats(k)) {
      const Block32Problem<Bf16> p({m, n, k, format}, Values::kNormal, 5);
      const auto y = expected(p);
      EXPECT_TRUE(same_bits(y, run<float>(kernels(), p))) << p.shape;
      EXPECT_TRUE(same_bits(narrowed(y), run<Bf16>(kernels(), p))) << p.shape;
      const Block32Problem<float> q({m, n, k, format}, Values::kNormal, 6);
      EXPECT_TRUE(same_bits(expected(q), run<float>(kernels(), q))) << q.shape;
    }
  }
}

TEST_P(KernelsLinearBlock32, EveryChunkOfColumnsGivesTheBitsOfTheReference) {
  for (std::size_t m : {std::size_t{3}, std::size_t{20}, std::size_t{35}}) {
    for (const Block32Format& format : {Block32Format{4, 32, 8, true, true}, Block32Format{8, 16, 32, false, false}}) {
      const Block32Problem<Bf16> p({m, 337, 4480, format}, Values::kNormal, 12);
      EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p, 0, 160))) << p.shape;
    }
  }
}

// All weights at an end of their range and all activations at +-127: what 16-bit sums would saturate at.
TEST_P(KernelsLinearBlock32, TheLargestSumsNeitherSaturateNorWrap) {
  for (const Block32Format& format : formats(96)) {
    Block32Problem<float> p({20, 17, 96, format}, Values::kNormal, 3, false, Block32Values::kExtreme);
    for (std::size_t i = 0; i < p.x.size(); ++i) p.x[i] = i / 96 % 2 == 0 ? 1.0f : (i % 3 == 0 ? -1.0f : 1.0f);
    const int most = (1 << format.bits) - 1;
    for (std::size_t j = 0; j < 96; ++j) {  // columns 0 and 1: every product has one sign
      p.w.values[j] = static_cast<std::uint8_t>(most);
      p.w.values[96 + j] = 0;
    }
    EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape;
  }
}

TEST_P(KernelsLinearBlock32, DenormalsOverflowInfinityAndNanGiveTheBitsOfTheReference) {
  for (Values values : kAllValues) {
    for (std::size_t m : {std::size_t{1}, std::size_t{6}}) {
      for (const Block32Format& format : formats(160)) {
        const Block32Problem<Bf16> p({m, 48, 160, format}, values, 4);
        EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape << " values " << int(values);
        EXPECT_TRUE(same_bits(narrowed(expected(p)), run<Bf16>(kernels(), p))) << p.shape;
        if (format.half_scales) continue;
        Block32Problem<float> q({m, 48, 160, format}, values, 5, m == 1);
        std::mt19937 rng(6);
        q.w.scales = random_values<float>(rng, q.w.scales.size(), values);
        if (format.has_minima) q.w.minima = random_values<float>(rng, q.w.minima.size(), values);
        EXPECT_TRUE(same_bits(expected(q), run<float>(kernels(), q))) << q.shape << " values " << int(values);
      }
    }
  }
}

// A NaN far to the right, beyond the first columns that are quantised at once, and scales of f16 that are infinite.
TEST_P(KernelsLinearBlock32, ALateNanMakesTheWholeRowNan) {
  Block32Problem<float> p({3, 16, 9000, {8, 32, 128, false, true}}, Values::kNormal, 5);
  p.x[9000 + 8999] = float_of(0x7fc00000u);
  p.x[2 * 9000 + 8192] = float_of(0xff800000u);
  const auto y = run<float>(kernels(), p);
  EXPECT_TRUE(same_bits(expected(p), y));
  EXPECT_EQ(y[0], y[0]);
  EXPECT_NE(y[16], y[16]);  // equal: the row kept the values of its first columns
  EXPECT_NE(y[32], y[32]);
}

TEST_P(KernelsLinearBlock32, InfiniteAndNanScalesGiveTheBitsOfTheReference) {
  for (const Block32Format& format : formats(160)) {
    Block32Problem<float> p({5, 33, 160, format}, Values::kNormal, 5);
    p.w.scales[0] = float_of(0x7f800000u), p.w.scales[1] = float_of(0x7fc00000u);
    p.w.scales[p.w.scales.size() - 1] = float_of(0xff800000u);
    EXPECT_TRUE(same_bits(expected(p), run<float>(kernels(), p))) << p.shape;
  }
}

TEST_P(KernelsLinearBlock32, BlocksNearTheSmallestScaleGiveTheBitsOfTheReference) {
  Block32Problem<float> p({2, 16, 32 * 40, {8, 32, 128, false, false}}, Values::kNormal, 2, false);
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    p.x[i] = std::ldexp(p.x[i], -110 - static_cast<int>(i / 32 % 40) / 2);
  }
  const auto y = expected(p);
  EXPECT_TRUE(same_bits(y, run<float>(kernels(), p)));
  EXPECT_NE(y.front(), 0.0f);
}

TEST_P(KernelsLinearBlock32, NoSplitOfTheWorkChangesABit) {
  for (const Block32Format& format : formats(200)) {
    const Block32Problem<Bf16> p({20, 112, 200, format}, Values::kNormal, 9);
    const auto whole = run<float>(kernels(), p);
    for (std::size_t split_m : {std::size_t{1}, std::size_t{18}}) {
      for (std::size_t split_n : {std::size_t{16}, std::size_t{48}, std::size_t{96}}) {
        EXPECT_TRUE(same_bits(whole, run<float>(kernels(), p, split_m, split_n)));
      }
    }
  }
}

TEST_P(KernelsLinearBlock32, ARowHasTheSameBitsAloneAndInEveryBatch) {
  for (const Block32Format& format : formats(330)) {
    const Block32Problem<Bf16> p({21, 50, 330, format}, Values::kNormal, 21);
    const auto batch = run<float>(kernels(), p);
    for (std::size_t i : {std::size_t{0}, std::size_t{7}, std::size_t{20}}) {
      Block32Problem<Bf16> alone = p;
      alone.shape.m = 1;
      alone.x.assign(&p.x[i * 330], &p.x[i * 330] + 330);
      const std::vector<float> row(&batch[i * 50], &batch[i * 50] + 50);
      EXPECT_TRUE(same_bits(row, run<float>(kernels(), alone))) << "row " << i;
    }
  }
}

// The scalar reference against a double loop over the dequantised weights. The largest error: each activation is off
// by half a step of its block, and each sum by a few roundings.
TEST(ReferenceLinearBlock32, AgreesWithADoubleLoop) {
  const DenormalsOff denormals_off;
  for (const Block32Format& format : formats(300)) {
    const Block32Problem<float> p({3, 20, 300, format}, Values::kNormal, 13);
    const auto y = expected(p);
    const std::size_t group = std::min<std::size_t>(format.group_size, 300), groups = groups_of(300, group);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t n = 0; n < 20; ++n) {
        double sum = p.bias[n], bound = 1e-5;
        for (std::size_t j = 0; j < 300; ++j) {
          const std::size_t g = n * groups + j / group;
          const double w = double(p.w.scales[g]) * (p.w.values[n * 300 + j] - p.w.zero) +
                           (format.has_minima ? double(p.w.minima[g]) : 0.0);
          double most = 0;
          for (std::size_t b = j / 32 * 32; b < std::min<std::size_t>(300, j / 32 * 32 + 32); ++b) {
            most = std::max(most, std::fabs(double(p.x[i * 300 + b])));
          }
          sum += w * double(p.x[i * 300 + j]);
          const double parts = std::fabs(double(p.w.scales[g])) * 255 + std::fabs(w);
          bound += std::fabs(w) * most / 254 + parts * std::fabs(double(p.x[i * 300 + j])) * 1e-5;
        }
        EXPECT_NEAR(y[i * 20 + n], sum, bound) << p.shape;
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cpu
