// Sums, scaling, conversions, activations and row copies, bit by bit.
// Covers: plugins/kernels/cpu/rows/{activation,gate} plugins/kernels/cpu/types
#include "kernels/cpu/rows/elementwise.hpp"

#include <cmath>

#include "kernel_test.hpp"
#include "reference_activation.hpp"

namespace mortise::cpu {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 15, 16, 17, 100, 1000};

float canonical(float x) {
  return x != x ? float_of(0x7fc00000) : x;
}

class KernelsElementwise : public OnEachIsa {};
MORTISE_ON_EACH_ISA(KernelsElementwise);

TEST_P(KernelsElementwise, SumsAndScalingRoundOnce) {
  const auto& k = kernels().elementwise;
  for (std::size_t n : kSizes) {
    for (Values values : kAllValues) {
      std::mt19937 rng(static_cast<unsigned>(n));
      const auto a = random_values<float>(rng, n, values), b = random_values<float>(rng, n, values);
      const auto a16 = random_values<Bf16>(rng, n, values), b16 = random_values<Bf16>(rng, n, values);
      std::vector<float> sums(n), products(n), out(n);
      std::vector<Bf16> sums16(n), products16(n), out16(n);
      for (std::size_t i = 0; i < n; ++i) {
        sums[i] = canonical(a[i] + b[i]), products[i] = canonical(a[i] * 0.3f);
        sums16[i] = float_to_bf16(bf16_to_float(a16[i]) + bf16_to_float(b16[i]));
        products16[i] = float_to_bf16(bf16_to_float(a16[i]) * 0.3f);
      }
      k.add_f32(a.data(), b.data(), out.data(), n);
      EXPECT_TRUE(same_bits(sums, out));
      k.scale_f32(a.data(), 0.3f, out.data(), n);
      EXPECT_TRUE(same_bits(products, out));
      k.add_bf16(a16.data(), b16.data(), out16.data(), n);
      EXPECT_TRUE(same_bits(sums16, out16));
      k.scale_bf16(a16.data(), 0.3f, out16.data(), n);
      EXPECT_TRUE(same_bits(products16, out16));
    }
  }
}

TEST_P(KernelsElementwise, EveryBf16IsWidenedExactlyAndComesBack) {
  std::vector<Bf16> all(65536), back(65536);
  std::vector<float> wide(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Bf16>(i);
  kernels().elementwise.bf16_to_f32(all.data(), wide.data(), all.size());
  kernels().elementwise.f32_to_bf16(wide.data(), back.data(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool nan = (i & 0x7fff) > 0x7f80;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), nan ? 0x7fc00000u : static_cast<std::uint32_t>(i) << 16);
    ASSERT_EQ(back[i], nan ? 0x7fc0 : i);
  }
}

TEST_P(KernelsElementwise, EveryF16IsWidenedExactly) {
  std::vector<F16> all(65536);
  std::vector<float> wide(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<F16>(i);
  kernels().elementwise.f16_to_f32(all.data(), wide.data(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
    float expected = exponent == 31  ? (mantissa == 0 ? HUGE_VALF : float_of(0x7fc00000))
                     : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                     : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    if (i >= 0x8000 && expected == expected) expected = -expected;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(expected)) << i;
  }
}

TEST_P(KernelsElementwise, RowsAreTakenFromTheTableByTheirIds) {
  const std::int32_t ids[] = {3, 0, 3, 9};
  std::vector<std::uint16_t> table(10 * 7), out(4 * 7);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint16_t>(i);
  kernels().elementwise.gather_rows(table.data(), 14, ids, 4, out.data());
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t c = 0; c < 7; ++c) EXPECT_EQ(out[r * 7 + c], static_cast<std::size_t>(ids[r]) * 7 + c);
  }
}

class KernelsActivation : public OnEachIsa {};
MORTISE_ON_EACH_ISA(KernelsActivation);

TEST_P(KernelsActivation, AloneAndAsGateItRoundsWhereTransformersDoes) {
  for (Activation act : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (std::size_t n : kSizes) {
      for (Values values : kAllValues) {
        std::mt19937 rng(static_cast<unsigned>(n));
        const auto gate = random_values<float>(rng, n, values), up = random_values<float>(rng, n, values);
        const auto gate16 = random_values<Bf16>(rng, n, values), up16 = random_values<Bf16>(rng, n, values);
        std::vector<float> single(n), gated(n), out(n);
        std::vector<Bf16> single16(n), gated16(n), out16(n);
        for (std::size_t i = 0; i < n; ++i) {
          single[i] = canonical(reference_of(act, gate[i]));
          gated[i] = canonical(single[i] * up[i]);
          single16[i] = float_to_bf16(reference_of(act, bf16_to_float(gate16[i])));
          gated16[i] = float_to_bf16(bf16_to_float(single16[i]) * bf16_to_float(up16[i]));
        }
        kernels().activation.apply_f32(act, gate.data(), out.data(), n);
        EXPECT_TRUE(same_bits(single, out));
        kernels().activation.gated_f32(act, gate.data(), up.data(), out.data(), n);
        EXPECT_TRUE(same_bits(gated, out));
        kernels().activation.apply_bf16(act, gate16.data(), out16.data(), n);
        EXPECT_TRUE(same_bits(single16, out16));
        kernels().activation.gated_bf16(act, gate16.data(), up16.data(), out16.data(), n);
        EXPECT_TRUE(same_bits(gated16, out16));
      }
    }
  }
}

// A gate may be computed by a shortcut that rounds to the same bf16 (math.hpp): it is right because this goes through
// all.
TEST_P(KernelsActivation, EveryBf16AsGateGivesTheRoundedActivation) {
  constexpr std::size_t kAll = 65536;
  std::vector<Bf16> gate(kAll), up(kAll, float_to_bf16(1.0f)), expected(kAll), actual(kAll);
  for (std::size_t i = 0; i < kAll; ++i) gate[i] = static_cast<Bf16>(i);
  DenormalsOff off;
  for (Activation act : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (std::size_t i = 0; i < kAll; ++i) {
      const Bf16 rounded = float_to_bf16(reference_of(act, bf16_to_float(gate[i])));
      expected[i] = float_to_bf16(bf16_to_float(rounded) * 1.0f);
    }
    kernels().activation.gated_bf16(act, gate.data(), up.data(), actual.data(), kAll);
    for (std::size_t i = 0; i < kAll; ++i) {
      ASSERT_EQ(expected[i], actual[i]) << "activation " << static_cast<int>(act) << " of " << bf16_to_float(gate[i]);
    }
  }
}

}  // namespace
}  // namespace mortise::cpu
