// linear in both orders of sums, on every instruction set, against its scalar reference, bit by bit, and that one
// against a double loop. VDPBF16PS is emulated on machines without it.
// Covers: plugins/kernels/cpu/linear/{pack,pairs,run} plugins/kernels/cpu/reference/{linear,scalar}
// Covers: plugins/kernels/cpu/vec/pairs plugins/kernels/cpu/dot_check
#include <cmath>

#include "linear/linear_problem.hpp"

namespace mortise::cpu {
namespace isa_emulated_dot {
extern const LinearBf16Kernels kLinearPairsKernels;
}
#if defined(__x86_64__)
namespace isa_avx512 {
extern const LinearBf16Kernels kLinearPairsKernels;
}
#endif
namespace {

struct LinearForm {
  std::string name;
  SumOrder order;
  const LinearBf16Kernels* kernels;
};

std::vector<LinearForm> linear_forms() {
  std::vector<LinearForm> found;
  if (can_emulate_dot()) found.push_back({"emulated_dot", SumOrder::kPairs, &isa_emulated_dot::kLinearPairsKernels});
#if defined(__x86_64__)
  if (const Bf16Kernels* dot = exact_dot_kernels()) {
    found.push_back({"avx512_without_dot", SumOrder::kPairs, &isa_avx512::kLinearPairsKernels});
    found.push_back({"avx512_with_dot", SumOrder::kPairs, &dot->linear});
  }
#endif
  for (Isa isa : available_isas()) {
    for (SumOrder order : kSumOrders) {
      found.push_back({std::string(isa_name(isa)) + "_" + name_of(order), order, &bf16_kernels(isa, order).linear});
    }
  }
  return found;
}

class KernelsLinear : public testing::TestWithParam<LinearForm> {
 protected:
  std::vector<float> expected(const Problem<Bf16>& p) const { return mortise::cpu::expected(p, GetParam().order); }
  const LinearBf16Kernels& linear() const { return *GetParam().kernels; }
  DenormalsOff denormals_off_;
};
INSTANTIATE_TEST_SUITE_P(Form, KernelsLinear, testing::ValuesIn(linear_forms()),
                         [](const auto& info) { return info.param.name; });

class KernelsLinearF32 : public OnEachIsa {};
MORTISE_ON_EACH_ISA(KernelsLinearF32);

TEST_P(KernelsLinear, EveryRowCountGivesTheBitsOfTheReference) {
  for (std::size_t m = 1; m <= 33; ++m) {
    const Problem<Bf16> p({m, 52, 100}, Values::kNormal, m % 2 == 0, 17 + m);
    EXPECT_TRUE(same_bits(expected(p), run<Bf16, float>(linear().to_f32, p))) << "m " << m;
  }
}

TEST_P(KernelsLinear, OddShapesGiveTheBitsOfTheReference) {
  for (const Shape& s : {Shape{1, 1, 1}, Shape{2, 17, 31}, Shape{5, 15, 32}, Shape{7, 16, 33}, Shape{16, 33, 64},
                         Shape{17, 48, 95}, Shape{31, 130, 544}, Shape{40, 31, 1100}, Shape{70, 100, 96},
                         Shape{250, 33, 40}, Shape{49, 1100, 64}, Shape{3, 16, 4}}) {
    for (bool bias : {false, true}) {
      const Problem<Bf16> p(s, Values::kNormal, bias, 5);
      const auto y = expected(p);
      SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k);
      EXPECT_TRUE(same_bits(y, run<Bf16, float>(linear().to_f32, p)));
      EXPECT_TRUE(same_bits(rounded(y), run<Bf16, Bf16>(linear().to_bf16, p)));
    }
  }
}

TEST_P(KernelsLinear, DenormalsOverflowInfinityAndNanGiveTheBitsOfTheReference) {
  for (Values values : kAllValues) {
    for (std::size_t m : {std::size_t{1}, std::size_t{20}}) {
      for (unsigned seed = 0; seed < 4; ++seed) {
        const Problem<Bf16> p({m, 96, 160}, values, seed % 2 == 1, seed);
        SCOPED_TRACE(testing::Message() << "values " << static_cast<int>(values) << " m " << m << " seed " << seed);
        EXPECT_TRUE(same_bits(expected(p), run<Bf16, float>(linear().to_f32, p)));
      }
    }
  }
}

// Sums that round to the smallest normal number from below: whether they are flushed depends on whether the unit looks
// for tiny results before or after rounding. The specification is after.
TEST_P(KernelsLinear, SumsJustBelowTheSmallestNormalNumberGiveTheBitsOfTheReference) {
  const auto bf16 = [](float x) { return float_to_bf16(x); };
  for (int low = -152; low <= -134; ++low) {
    for (float sign : {1.0f, -1.0f}) {
      Problem<Bf16> p({1, 16, 32}, Values::kNormal, false, 0);
      std::fill(p.x.begin(), p.x.end(), Bf16{0});
      std::fill(p.w.begin(), p.w.end(), Bf16{0});
      // Even k: 2^-126, then minus 2^low, the product of two small powers.
      p.x[0] = bf16(sign * 0x1p-63f), p.x[2] = bf16(-sign * 0x1p-70f);
      for (std::size_t n = 0; n < 16; ++n) {
        p.w[n * 32] = bf16(0x1p-63f);
        p.w[n * 32 + 2] = bf16(std::ldexp(1.0f + static_cast<float>(n) / 16, low + 70));
      }
      EXPECT_TRUE(same_bits(expected(p), run<Bf16, float>(linear().to_f32, p))) << "2^-126 - 2^" << low;
    }
  }
}

TEST_P(KernelsLinearF32, DenormalsOverflowInfinityAndNanGiveTheBitsOfTheReference) {
  for (Values values : kAllValues) {
    for (std::size_t m : {std::size_t{1}, std::size_t{20}}) {
      for (unsigned seed = 0; seed < 4; ++seed) {
        const Problem<float> p({m, 96, 160}, values, seed % 2 == 1, seed);
        EXPECT_TRUE(same_bits(expected(p), run<float, float>(kernels().linear_f32.to_f32, p)));
      }
    }
  }
}

TEST_P(KernelsLinearF32, OddShapesGiveTheBitsOfTheReference) {
  for (const Shape& s : {Shape{1, 40, 100}, Shape{4, 17, 33}, Shape{13, 64, 288}, Shape{33, 31, 65}}) {
    const Problem<float> p(s, Values::kNormal, s.m % 2 == 0, 3);
    EXPECT_TRUE(same_bits(expected(p), run<float, float>(kernels().linear_f32.to_f32, p)));
  }
}

TEST_P(KernelsLinear, NoSplitOfTheWorkChangesABit) {
  const Problem<Bf16> p({100, 176, 200}, Values::kNormal, true, 9);
  const auto whole = run<Bf16, float>(linear().to_f32, p);
  for (std::size_t split_m : {std::size_t{32}, std::size_t{96}}) {
    for (std::size_t split_n : {std::size_t{16}, std::size_t{48}, std::size_t{160}}) {
      EXPECT_TRUE(same_bits(whole, run<Bf16, float>(linear().to_f32, p, split_m, split_n)));
    }
  }
}

TEST_P(KernelsLinear, ARowHasTheSameBitsAloneAndInEveryBatch) {
  const Problem<Bf16> p({64, 112, 330}, Values::kNormal, false, 21);
  const auto all = run<Bf16, float>(linear().to_f32, p);
  for (std::size_t m : {1, 2, 8, 15, 16, 17, 32, 33}) {
    Problem<Bf16> part = p;
    part.shape.m = m;
    part.x.assign(p.x.end() - static_cast<std::ptrdiff_t>(m * p.shape.k), p.x.end());
    const auto y = run<Bf16, float>(linear().to_f32, part);
    EXPECT_TRUE(same_bits(all.data() + (64 - m) * p.shape.n, y.data(), y.size())) << "m " << m;
  }
}

// An fma chain of 16, 2 additions per tile and one per bias: at most (K + 2 ceil(K/32) + 1) roundings touch a term, and
// far fewer each: |error| <= (16 + 1 + ceil(K/32) + 1) u sum |x w| with u = 2^-24, times (1 + small).
// In pairs the chain has K terms.
TEST(KernelsLinearReference, AgreesWithADoubleLoop) {
  DenormalsOff off;
  const Problem<Bf16> p({9, 37, 500}, Values::kNormal, true, 4);
  const auto y = expected(p), y_pairs = expected(p, SumOrder::kPairs);
  const auto [m, n, k] = p.shape;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = p.bias[j], magnitude = std::abs(sum);
      for (std::size_t c = 0; c < k; ++c) {
        const double term = double{bf16_to_float(p.x[i * k + c])} * double{bf16_to_float(p.w[j * k + c])};
        sum += term, magnitude += std::abs(term);
      }
      const double roundings = 16 + 1 + std::ceil(static_cast<double>(k) / 32) + 1;
      EXPECT_NEAR(y[i * n + j], sum, roundings * 0x1p-24 * magnitude * 1.01);
      EXPECT_NEAR(y_pairs[i * n + j], sum, static_cast<double>(k + 1) * 0x1p-24 * magnitude * 1.01);
    }
  }
}

// The sum before a pair, then its odd element, then its even one: two of 2^-24 before 1 survive, and one does not.
TEST(KernelsLinearReference, InPairsTheOddElementComesFirst) {
  DenormalsOff off;
  const auto product = [](std::initializer_list<float> x) {
    Problem<Bf16> p({1, 1, x.size()}, Values::kNormal, false, 0);
    std::transform(x.begin(), x.end(), p.x.begin(), float_to_bf16);
    std::fill(p.w.begin(), p.w.end(), float_to_bf16(1.0f));
    return expected(p, SumOrder::kPairs)[0];
  };
  EXPECT_EQ(product({0, 0x1p-24f, 1.0f, 0x1p-24f}), 1.0f + 0x1p-23f);
  EXPECT_EQ(product({0, 0x1p-24f, 0x1p-24f, 1.0f}), 1.0f);
}

TEST(KernelsLinearPack, RowsComeBackFromWhatWasPacked) {
  std::mt19937 rng(1);
  for (const auto& [n, k] : {std::pair<std::size_t, std::size_t>(75, 101), {16, 32}, {1, 1}, {40, 64}}) {
    const auto w = random_values<Bf16>(rng, n * k);
    const auto v = random_values<float>(rng, n * k);
    auto packed_w = pack(w, n, k);
    auto packed_v = pack(v, n, k);
    std::vector<Bf16> w_again(n * k);
    std::vector<float> v_again(n * k);
    for (std::size_t i = 0; i < n; ++i) unpack_row_bf16(packed_w.data(), k, i, &w_again[i * k]);
    for (std::size_t i = 0; i < n; ++i) unpack_row_f32(packed_v.data(), k, i, &v_again[i * k]);
    EXPECT_TRUE(same_bits(w, w_again));
    EXPECT_TRUE(same_bits(v, v_again));
  }
}

TEST(KernelsLinearPack, HalfPrecisionWeightsAreWidenedExactly) {
  constexpr F16 f16[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xc500, 0x7bff};
  constexpr float f16_values[] = {0.0f, -0.0f, 0x1p-24f, -0x1.ff8p-15f, 0x1p-14f, 1.0f, -5.0f, 65504.0f};
  constexpr Bf16 bf16[] = {0x0000, 0x8000, 0x0080, 0x8100, 0x3f80, 0xc0a0, 0x7f7f, 0x3f81};
  AlignedBuffer<char> panel(packed_bytes_f32(16, 8));
  float row[8];
  const F16* f16_rows[kPanelColumns] = {nullptr, f16};
  pack_panel_f32_from_f16(f16_rows, 8, panel.data());
  unpack_row_f32(panel.data(), 8, 1, row);
  EXPECT_TRUE(same_bits(f16_values, row, 8));
  const Bf16* bf16_rows[kPanelColumns] = {nullptr, nullptr, bf16};
  pack_panel_f32_from_bf16(bf16_rows, 8, panel.data());
  unpack_row_f32(panel.data(), 8, 2, row);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(row[i], bf16_to_float(bf16[i]));
}

}  // namespace
}  // namespace mortise::cpu
