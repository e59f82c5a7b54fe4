// linear_fp8 in every form that this machine can run (and the AMX one on emulated tiles) against its scalar reference,
// bit by bit, and that one against a double loop; weights made E4M3 likewise.
// Covers: plugins/kernels/cpu/linear/block plugins/kernels/cpu/linear_fp8/{amx,widen,pack} plugins/kernels/cpu/vec/fp8
// Covers: plugins/kernels/cpu/reference/linear_fp8
#include <cmath>

#include "kernels/cpu/linear_fp8/pack.hpp"
#include "linear_fp8/linear_fp8_problem.hpp"

namespace mortise::cpu {
namespace isa_emulated_amx {
extern const LinearFp8Kernel kLinearFp8ToBf16, kLinearFp8ToF32;
}
namespace {

struct Fp8Form {
  std::string name;
  const LinearFp8Kernel *to_bf16, *to_f32, *of_f32;  // of_f32: null if the form has none of its own
};

std::vector<Fp8Form> fp8_forms() {
  std::vector<Fp8Form> found = {
      {"emulated_amx", &isa_emulated_amx::kLinearFp8ToBf16, &isa_emulated_amx::kLinearFp8ToF32, nullptr}};
  for (Isa isa : available_isas()) {
    const KernelTable& table = kernels(isa);
    found.push_back({isa_name(isa), &table.linear_fp8_to_bf16, &table.linear_fp8_to_f32, &table.linear_fp8_f32});
  }
  return found;
}

class KernelsLinearFp8 : public testing::TestWithParam<Fp8Form> {
 protected:
  void expect_reference(const Fp8Problem<Bf16>& p) {
    const auto y = expected(p);
    std::vector<Bf16> rounded(y.size());
    std::transform(y.begin(), y.end(), rounded.begin(), float_to_bf16);
    EXPECT_TRUE(same_bits(y, run<float>(*GetParam().to_f32, p))) << p.shape;
    EXPECT_TRUE(same_bits(rounded, run<Bf16>(*GetParam().to_bf16, p))) << p.shape;
  }
  void expect_reference(const Fp8Problem<float>& p) {
    if (GetParam().of_f32 == nullptr) return;
    EXPECT_TRUE(same_bits(expected(p), run<float>(*GetParam().of_f32, p))) << p.shape;
  }
  DenormalsOff denormals_off_;
};
INSTANTIATE_TEST_SUITE_P(Isa, KernelsLinearFp8, testing::ValuesIn(fp8_forms()),
                         [](const auto& info) { return info.param.name; });

TEST_P(KernelsLinearFp8, EveryRowCountGivesTheBitsOfTheReference) {
  for (const bool grouped : {false, true}) {
    for (std::size_t m = 1; m <= 34; ++m) {
      expect_reference(Fp8Problem<Bf16>({m, 52, 288, grouped}, Values::kNormal, 17 + m, m % 3 == 0));
    }
  }
}

TEST_P(KernelsLinearFp8, OddShapesGiveTheBitsOfTheReference) {
  for (const bool grouped : {false, true}) {
    for (const auto& [m, n, k] : {std::tuple<std::size_t, std::size_t, std::size_t>(1, 1, 1),
                                  {2, 17, 31},
                                  {5, 15, 32},
                                  {7, 16, 33},
                                  {3, 65, 128},
                                  {17, 48, 129},
                                  {31, 130, 544},
                                  {40, 31, 1100},
                                  {70, 33, 160},
                                  {300, 40, 200},
                                  {33, 16, 2500}}) {
      expect_reference(Fp8Problem<Bf16>({m, n, k, grouped}, Values::kNormal, 5));
      expect_reference(Fp8Problem<float>({m, n, k, grouped}, Values::kNormal, 6));
    }
  }
}

TEST_P(KernelsLinearFp8, DenormalsOverflowInfinityAndNanGiveTheBitsOfTheReference) {
  for (const Values values : kAllValues) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      Fp8Problem<Bf16> p({seed % 2 == 0 ? 1u : 20u, 48, 300, seed < 2}, values, seed);
      std::mt19937 rng(seed);
      if (values != Values::kSpecial) p.w.scales = random_values<float>(rng, p.w.scales.size(), values);
      expect_reference(p);
      expect_reference(Fp8Problem<float>({9, 48, 300, seed < 2}, values, seed));
    }
  }
}

// A row of ones picks single weights out of a matrix that has each number once.
TEST_P(KernelsLinearFp8, EveryNumberIsWidenedExactly) {
  Fp8Problem<Bf16> p({128, 2, 128, false}, Values::kNormal, 1, /*with_bias=*/false);
  std::fill(p.x.begin(), p.x.end(), Bf16{0});
  for (std::size_t i = 0; i < 128; ++i) {
    p.x[i * 128 + i] = float_to_bf16(1.0f);
    p.w.values[i] = static_cast<std::uint8_t>(i == 127 ? 0 : i), p.w.values[128 + i] = p.w.values[i] | 0x80;
  }
  p.w.scales = {1.0f, 1.0f};
  const auto y = run<float>(*GetParam().to_f32, p);
  for (std::size_t i = 0; i < 127; ++i) {
    EXPECT_EQ(y[2 * i], reference::from_e4m3(static_cast<std::uint8_t>(i)));
    EXPECT_EQ(y[2 * i + 1], -y[2 * i]);
  }
}

TEST_P(KernelsLinearFp8, NoSplitOfTheWorkChangesABit) {
  const Fp8Problem<Bf16> p({100, 176, 400, true}, Values::kNormal, 9);
  const auto whole = run<float>(*GetParam().to_f32, p);
  for (std::size_t split_m : {std::size_t{32}, std::size_t{96}}) {
    for (std::size_t split_n : {std::size_t{16}, std::size_t{48}, std::size_t{160}}) {
      EXPECT_TRUE(same_bits(whole, run<float>(*GetParam().to_f32, p, split_m, split_n)));
    }
  }
}

TEST_P(KernelsLinearFp8, ARowHasTheSameBitsAloneAndInEveryBatch) {
  for (const bool grouped : {false, true}) {
    const Fp8Problem<Bf16> p({64, 112, 330, grouped}, Values::kNormal, 21);
    const auto all = run<float>(*GetParam().to_f32, p);
    for (std::size_t m : {1, 2, 8, 9, 15, 16, 17, 32, 33}) {
      Fp8Problem<Bf16> part = p;
      part.shape.m = m;
      part.x.assign(p.x.end() - static_cast<std::ptrdiff_t>(m * p.shape.k), p.x.end());
      const auto y = run<float>(*GetParam().to_f32, part);
      EXPECT_TRUE(same_bits(all.data() + (64 - m) * p.shape.n, y.data(), y.size())) << "m " << m;
    }
  }
}

TEST(KernelsLinearFp8Reference, NumbersAreThoseOfTheFormat) {
  EXPECT_EQ(reference::from_e4m3(0x00), 0.0f);
  EXPECT_EQ(reference::from_e4m3(0x01), 0x1p-9f);
  EXPECT_EQ(reference::from_e4m3(0x07), 0x1.cp-7f);
  EXPECT_EQ(reference::from_e4m3(0x08), 0x1p-6f);
  EXPECT_EQ(reference::from_e4m3(0x38), 1.0f);
  EXPECT_EQ(reference::from_e4m3(0xb9), -1.125f);
  EXPECT_EQ(reference::from_e4m3(0x7e), 448.0f);
}

TEST(KernelsLinearFp8Reference, AgreesWithADoubleLoop) {
  DenormalsOff off;
  for (const bool grouped : {false, true}) {
    const Fp8Problem<Bf16> p({9, 37, 500, grouped}, Values::kNormal, 4);
    const auto y = expected(p);
    const std::size_t k = p.shape.k, groups = groups_of(k, p.w.group_size);
    for (std::size_t i = 0; i < p.shape.m; ++i) {
      for (std::size_t j = 0; j < p.shape.n; ++j) {
        double sum = p.bias[j], magnitude = std::fabs(sum);
        for (std::size_t c = 0; c < k; ++c) {
          const double term = double{bf16_to_float(p.x[i * k + c])} * reference::from_e4m3(p.w.values[j * k + c]) *
                              p.w.scales[j * groups + c / p.w.group_size];
          sum += term, magnitude += std::fabs(term);
        }
        EXPECT_NEAR(y[i * p.shape.n + j], sum, 30 * 0x1p-24 * magnitude);
      }
    }
  }
}

TEST(KernelsLinearFp8Pack, RowsAreRoundedAsTheReferenceRounds) {
  DenormalsOff off;
  std::mt19937 rng(3);
  const auto expect_same = [](const std::vector<float>& w) {
    const reference::Fp8Weight all = reference::quantize_fp8(w, 1, w.size());
    std::vector<std::uint8_t> values(w.size());
    float scale = -1;
    quantize_row_fp8(w.data(), w.size(), values.data(), &scale);
    EXPECT_TRUE(same_bits(all.values, values));
    EXPECT_TRUE(same_bits(all.scales, {scale}));
  };
  for (const Values values : kAllValues) {
    for (int i = 0; i < 10; ++i) expect_same(random_values<float>(rng, 300, values));
  }
  expect_same({0.0f, -0.0f});
  // A scale of 1, numbers halfway between two E4M3 numbers, and their neighbours.
  std::vector<float> halves = {448.0f};
  for (unsigned value = 0; value < 0x7e; ++value) {
    const float half = (reference::from_e4m3(static_cast<std::uint8_t>(value)) +
                        reference::from_e4m3(static_cast<std::uint8_t>(value + 1))) /
                       2;
    for (const float x : {half, std::nextafter(half, 0.0f), std::nextafter(half, 1000.0f)}) {
      halves.push_back(x), halves.push_back(-x);
    }
  }
  expect_same(halves);
}

}  // namespace
}  // namespace mortise::cpu
