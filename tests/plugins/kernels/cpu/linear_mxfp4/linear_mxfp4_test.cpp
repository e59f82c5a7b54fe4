// linear_mxfp4 in every form that this machine can run (and the AMX one on emulated tiles): the bits of the scalar
// reference of linear with the widened weights, which is that of the bf16 kernels. Weights made MXFP4 likewise.
// Covers: plugins/kernels/cpu/linear_mxfp4/{amx,pack,pairs,widen} plugins/kernels/cpu/linear_widened/{amx,vector}
// Covers: plugins/kernels/cpu/vec/fp4 plugins/kernels/cpu/reference/linear_mxfp4
#include <cmath>
#include <utility>

#include "kernels/cpu/linear_int/pack.hpp"
#include "kernels/cpu/linear_mxfp4/pack.hpp"
#include "linear_mxfp4/mxfp4_problem.hpp"

namespace mortise::cpu {
namespace isa_emulated_amx {
extern const LinearMxfp4Kernel kLinearMxfp4ToBf16, kLinearMxfp4ToF32;
}
namespace isa_emulated_dot {
extern const LinearMxfp4Kernel kLinearMxfp4PairsToBf16, kLinearMxfp4PairsToF32;
}
namespace {

struct Mxfp4Form {
  std::string name;
  SumOrder order;
  const LinearMxfp4Kernel *to_bf16, *to_f32, *of_f32;  // of_f32: null if the form has none of its own
};

std::vector<Mxfp4Form> mxfp4_forms() {
  std::vector<Mxfp4Form> found = {{"emulated_amx", SumOrder::kTiles, &isa_emulated_amx::kLinearMxfp4ToBf16,
                                   &isa_emulated_amx::kLinearMxfp4ToF32, nullptr}};
  if (can_emulate_dot()) {
    found.push_back({"emulated_dot", SumOrder::kPairs, &isa_emulated_dot::kLinearMxfp4PairsToBf16,
                     &isa_emulated_dot::kLinearMxfp4PairsToF32, nullptr});
  }
  if (const Bf16Kernels* dot = exact_dot_kernels()) {
    found.push_back(
        {"avx512_with_dot", SumOrder::kPairs, &dot->linear_mxfp4_to_bf16, &dot->linear_mxfp4_to_f32, nullptr});
  }
  for (Isa isa : available_isas()) {
    for (SumOrder order : kSumOrders) {
      const Bf16Kernels& table = bf16_kernels(isa, order);
      found.push_back({std::string(isa_name(isa)) + "_" + name_of(order), order, &table.linear_mxfp4_to_bf16,
                       &table.linear_mxfp4_to_f32,
                       order == SumOrder::kTiles ? &kernels(isa).linear_mxfp4_f32 : nullptr});
    }
  }
  return found;
}

std::vector<float> expected_mxfp4(const Mxfp4Problem<Bf16>& p, SumOrder order) {
  const auto& [m, n, k] = p.shape;
  std::vector<float> y(m * n);
  const auto linear = order == SumOrder::kTiles ? reference::linear_bf16 : reference::linear_bf16_pairs;
  linear(p.x.data(), widen_mxfp4(p.w).data(), p.bias_or_null(), y.data(), m, n, k);
  return y;
}
std::vector<float> expected_mxfp4(const Mxfp4Problem<float>& p) {
  const auto& [m, n, k] = p.shape;
  std::vector<float> y(m * n), w;
  for (const Bf16 value : widen_mxfp4(p.w)) w.push_back(bf16_to_float(value));
  reference::linear_f32(p.x.data(), w.data(), p.bias_or_null(), y.data(), m, n, k);
  return y;
}

// A weight in the order that the kernels read.
struct PackedMxfp4Weight {
  explicit PackedMxfp4Weight(const reference::Mxfp4Weight& w)
      : values(packed_bytes_int(w.n, w.k, 4)),
        exponents((w.n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * groups_of(w.k, kMxfp4GroupColumns)) {
    const std::size_t groups = groups_of(w.k, kMxfp4GroupColumns);
    for (std::size_t first = 0; first < w.n; first += kPanelColumns) {
      const std::uint8_t* rows[kPanelColumns] = {};
      for (std::size_t c = 0; c < kPanelColumns; ++c) {
        if (first + c < w.n) rows[c] = &w.values[(first + c) * w.k];
        for (std::size_t g = 0; g < groups; ++g) {
          exponents.data()[(first / kPanelColumns * groups + g) * kPanelColumns + c] =
              first + c < w.n ? w.exponents[(first + c) * groups + g] : std::uint8_t{0};
        }
      }
      pack_panel_int(rows, w.k, 4, values.data() + packed_bytes_int(first, w.k, 4));
    }
  }

  AlignedBuffer<std::uint8_t> values, exponents;
};

// Runs the product in one call, or split at the given row and column.
template <class Y, class X>
std::vector<Y> run_mxfp4(const LinearMxfp4Kernel& kernel, const Mxfp4Problem<X>& p, std::size_t split_m = 0,
                         std::size_t split_n = 0) {
  const auto [m, n, k] = p.shape;
  PackedMxfp4Weight packed(p.w);
  const std::size_t x_stride = k + 3, y_stride = n + 5;  // odd strides: neither kernel nor packing may assume alignment
  std::vector<X> x(m * x_stride, X{1});
  for (std::size_t i = 0; i < m; ++i) std::copy_n(&p.x[i * k], k, &x[i * x_stride]);
  const Y untouched = sizeof(Y) == 2 ? static_cast<Y>(12345) : static_cast<Y>(-7);
  std::vector<Y> y(m * y_stride, untouched);
  AlignedBuffer<char> scratch(kernel.scratch_bytes(m, k));
  LinearMxfp4Args args = {};
  args.x = x.data(), args.x_stride = x_stride, args.w = packed.values.data();
  args.exponents = packed.exponents.data();
  args.bias = p.bias_or_null(), args.y = y.data(), args.y_stride = y_stride;
  args.m = m, args.n = n, args.k = k, args.scratch = scratch.data();
  for (const auto& [m0, m1] : {std::pair(split_m, m), std::pair(std::size_t{0}, split_m)}) {
    kernel.prepare(args, m0, m1);
    kernel.run(args, {m0, m1, split_n, n});
    kernel.run(args, {m0, m1, 0, split_n});
  }
  std::vector<Y> dense;
  for (std::size_t i = 0; i < m; ++i) {
    dense.insert(dense.end(), &y[i * y_stride], &y[i * y_stride] + n);
    for (std::size_t j = n; j < y_stride; ++j) EXPECT_EQ(y[i * y_stride + j], untouched) << "wrote behind row " << i;
  }
  return dense;
}

class KernelsLinearMxfp4 : public testing::TestWithParam<Mxfp4Form> {
 protected:
  void expect_reference(const Mxfp4Problem<Bf16>& p) {
    const auto y = expected_mxfp4(p, GetParam().order);
    std::vector<Bf16> rounded(y.size());
    std::transform(y.begin(), y.end(), rounded.begin(), float_to_bf16);
    EXPECT_TRUE(same_bits(y, run_mxfp4<float>(*GetParam().to_f32, p))) << p.shape;
    EXPECT_TRUE(same_bits(rounded, run_mxfp4<Bf16>(*GetParam().to_bf16, p))) << p.shape;
  }
  void expect_reference(const Mxfp4Problem<float>& p) {
    if (GetParam().of_f32 == nullptr) return;
    EXPECT_TRUE(same_bits(expected_mxfp4(p), run_mxfp4<float>(*GetParam().of_f32, p))) << p.shape;
  }
  DenormalsOff denormals_off_;
};
INSTANTIATE_TEST_SUITE_P(Isa, KernelsLinearMxfp4, testing::ValuesIn(mxfp4_forms()),
                         [](const auto& info) { return info.param.name; });

TEST_P(KernelsLinearMxfp4, EveryRowCountGivesTheBitsOfTheWidenedWeights) {
  for (std::size_t m = 1; m <= 34; ++m) {
    expect_reference(Mxfp4Problem<Bf16>({m, 52, 288}, Values::kNormal, 17 + m, m % 3 == 0));
  }
}

TEST_P(KernelsLinearMxfp4, OddShapesGiveTheBitsOfTheWidenedWeights) {
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
    expect_reference(Mxfp4Problem<Bf16>({m, n, k}, Values::kNormal, 5));
    expect_reference(Mxfp4Problem<float>({m, n, k}, Values::kNormal, 6));
  }
}

// Scales from 2^-127, whose numbers are denormals of bf16 and count as zeros, to 2^125, whose largest number is 1.5 *
// 2^127.
TEST_P(KernelsLinearMxfp4, EveryScaleAndOddActivationsGiveTheBitsOfTheWidenedWeights) {
  for (const Values values : kAllValues) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      const std::size_t m = seed % 2 == 0 ? 1 : 20;
      expect_reference(Mxfp4Problem<Bf16>({m, 48, 300}, values, seed, true, Exponents::kAll));
      expect_reference(Mxfp4Problem<float>({m, 48, 300}, values, seed, true, Exponents::kAll));
    }
  }
}

// Rows of ones pick single weights out of a matrix that has each value with each exponent.
TEST_P(KernelsLinearMxfp4, EveryNumberIsWidenedExactly) {
  Mxfp4Problem<Bf16> p({16, 253, 32}, Values::kNormal, 1, /*with_bias=*/false);
  std::fill(p.x.begin(), p.x.end(), Bf16{0});
  for (std::size_t i = 0; i < 16; ++i) p.x[i * 32 + i] = float_to_bf16(1.0f);
  for (std::size_t n = 0; n < 253; ++n) {
    p.w.exponents[n] = static_cast<std::uint8_t>(n);
    for (std::size_t j = 0; j < 32; ++j) p.w.values[n * 32 + j] = static_cast<std::uint8_t>(j % 16);
  }
  constexpr float kNumbers[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const auto y = run_mxfp4<float>(*GetParam().to_f32, p);
  for (std::size_t n = 0; n < 253; ++n) {
    for (std::size_t i = 0; i < 16; ++i) {
      const double exact = std::ldexp(i < 8 ? kNumbers[i] : -kNumbers[i - 8], static_cast<int>(n) - 127);
      EXPECT_EQ(double{y[i * 253 + n]}, std::fabs(exact) < 0x1p-126 ? 0 : exact) << "value " << i << ", exponent " << n;
    }
  }
}

TEST_P(KernelsLinearMxfp4, NoSplitOfTheWorkChangesABit) {
  const Mxfp4Problem<Bf16> p({100, 176, 400}, Values::kNormal, 9);
  const auto whole = run_mxfp4<float>(*GetParam().to_f32, p);
  for (std::size_t split_m : {std::size_t{32}, std::size_t{96}}) {
    for (std::size_t split_n : {std::size_t{16}, std::size_t{48}, std::size_t{160}}) {
      EXPECT_TRUE(same_bits(whole, run_mxfp4<float>(*GetParam().to_f32, p, split_m, split_n)));
    }
  }
}

TEST(KernelsLinearMxfp4Reference, NumbersAreThoseOfTheFormat) {
  const auto number = [](int value, int exponent) {
    return bf16_to_float(reference::widen_mxfp4(static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(exponent)));
  };
  constexpr float kNumbers[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int value = 0; value < 8; ++value) {
    EXPECT_EQ(number(value, 127), kNumbers[value]);
    EXPECT_EQ(number(value + 8, 120), -kNumbers[value] * 0x1p-7f);
    for (int exponent = 0; exponent <= 252; ++exponent) {
      EXPECT_EQ(number(value, exponent), std::ldexp(kNumbers[value], exponent - 127));  // not flushed: denormals, too
    }
  }
  EXPECT_TRUE(std::signbit(number(8, 127)));
}

TEST(KernelsLinearMxfp4Pack, RowsAreRoundedAsTheReferenceRounds) {
  DenormalsOff off;
  std::mt19937 rng(3);
  const auto expect_same = [](const std::vector<float>& w) {
    const reference::Mxfp4Weight all = reference::quantize_mxfp4(w, 1, w.size());
    std::vector<std::uint8_t> values(w.size()), exponents(all.exponents.size());
    std::vector<float> scales(all.exponents.size());
    ASSERT_TRUE(quantize_row_mxfp4(w.data(), w.size(), values.data(), scales.data()));
    std::transform(scales.begin(), scales.end(), exponents.begin(), exponent_of_scale);
    EXPECT_EQ(all.values, values);
    EXPECT_EQ(all.exponents, exponents);
    EXPECT_TRUE(same_bits(scales_of(all), scales));
  };
  for (const Values values : {Values::kNormal, Values::kTiny, Values::kHuge, Values::kWide}) {
    for (int i = 0; i < 10; ++i) {
      std::vector<float> w = random_values<float>(rng, 300, values);
      std::replace_if(
          w.begin(), w.end(), [](float x) { return !std::isfinite(x); }, 1.0f);
      expect_same(w);
    }
  }
  expect_same({0.0f, -0.0f});
  expect_same({std::numeric_limits<float>::max(), -1.0f});
  expect_same({std::numeric_limits<float>::min(), -std::numeric_limits<float>::denorm_min()});
  // A scale of 1, numbers halfway between two, and their neighbours. 7 is beyond the largest number, 6.
  std::vector<float> halves = {4.0f, 6.0f, 7.0f};
  for (const float half : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f}) {
    for (const float x : {half, std::nextafter(half, 0.0f), std::nextafter(half, 8.0f)}) {
      halves.push_back(x), halves.push_back(-x);
    }
  }
  halves.resize(32, 0.0f);
  expect_same(halves);
}

TEST(KernelsLinearMxfp4Pack, NanAndInfinityAreTold) {
  std::vector<std::uint8_t> values(40);
  std::vector<float> scales(2);
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> w(40, 1.0f);
    w[35] = odd;
    EXPECT_FALSE(quantize_row_mxfp4(w.data(), w.size(), values.data(), scales.data()));
  }
}

}  // namespace
}  // namespace mortise::cpu
