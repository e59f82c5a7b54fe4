// The functions of math.hpp through the kernels that use them, against the scalar reference, bit by bit; and the
// reference against long double over all f32 arguments of its range, sampled.
// Covers: plugins/kernels/cpu/reference/math
#include <cmath>
#include <limits>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/math.hpp"
#include "probe_of_isa.hpp"

namespace mortise::cpu {
namespace {

// Every 2^k-th pattern of bits, infinities, NaN and denormals among them, and dense values around where things change.
std::vector<float> arguments() {
  std::vector<float> x;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 40009)
    x.push_back(float_of(static_cast<std::uint32_t>(u)));
  for (float around :
       {0.0f, 0.5f, 0.625f, 0.9375f, 1.0f, 2.0f, 4.0f, 88.0f, 88.7228f, 87.33654f, 126.0f, 127.5f, 128.0f}) {
    const auto bits = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(around));
    for (std::int32_t i = -300; i <= 300; ++i) {
      if (bits + i < 0) continue;
      x.push_back(float_of(static_cast<std::uint32_t>(bits + i)));
      x.push_back(-x.back());
    }
  }
  x.push_back(std::numeric_limits<float>::infinity());
  x.push_back(-std::numeric_limits<float>::infinity());
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  return x;
}

using Scalar = float (*)(float);
constexpr Scalar kReferences[static_cast<int>(MathFunction::kCount)] = {
    reference::exp2,    reference::exp,  reference::log,  reference::log1p, reference::tanh,      reference::erf,
    reference::sigmoid, reference::silu, reference::relu, reference::gelu,  reference::gelu_tanh,
};

class KernelsMath : public OnEachIsa {};
MORTISE_ON_EACH_ISA(KernelsMath);

TEST_P(KernelsMath, EveryFunctionGivesTheBitsOfTheReference) {
  const std::vector<float> x = arguments();
  std::vector<float> actual(x.size()), expected(x.size());
  for (int function = 0; function < static_cast<int>(MathFunction::kCount); ++function) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected[i] = kReferences[function](x[i]);
      if (expected[i] != expected[i]) expected[i] = float_of(0x7fc00000);
    }
    probe(GetParam()).math(static_cast<MathFunction>(function), x.data(), actual.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(expected[i]), std::bit_cast<std::uint32_t>(actual[i]))
          << "function " << function << " of " << x[i];
    }
  }
}

// AVX-512 has a quotient of its own (math.hpp): it is right because this test goes through all arguments there are.
TEST_P(KernelsMath, SiluIsTheDividedQuotientForEveryFloat) {
  const bool all = GetParam() == Isa::kAvx512;
  const std::uint64_t stretch = all ? std::uint64_t{1} << 32 : 1 << 16;
  std::uint64_t wrong = 0;
  for (std::uint64_t begin = 0; begin < (std::uint64_t{1} << 32); begin += std::uint64_t{1} << (all ? 32 : 24)) {
    wrong += probe(GetParam()).wrong_silus(static_cast<std::uint32_t>(begin), stretch);
  }
  EXPECT_EQ(wrong, 0u);
}

// The largest error in units of the last place of the result, over a walk of [low, high] in steps of f32 patterns.
double largest_error(Scalar f, long double (*exact)(long double), float low, float high, std::uint32_t step) {
  double largest = 0;
  const auto walk = [&](float from, float to, bool negative) {
    const auto last = std::bit_cast<std::uint32_t>(to);
    for (std::uint32_t u = std::bit_cast<std::uint32_t>(from); u <= last; u += step) {
      const float x = negative ? -float_of(u) : float_of(u);
      long double y;
      float actual;
      {
        DenormalsOff off;
        actual = f(x);
      }
      y = exact(x);
      if (std::fabs(y) < 0x1p-125L) continue;  // at the edge of what is zero
      const int exponent = std::ilogb(y);
      largest = std::max(largest, static_cast<double>(std::fabs(actual - y) / std::ldexp(1.0L, exponent - 23)));
    }
  };
  constexpr float kSmallest = 0x1p-126f;
  if (high > 0) walk(std::max(low, kSmallest), high, false);
  if (low < 0) walk(std::max(-high, kSmallest), -low, true);
  return largest;
}

// The figures of math.hpp and docs/numerics.md. Measured with step 211 once; here fewer.
TEST(KernelsMathReference, ErrorsAgainstLongDoubleAreWhatTheHeaderSays) {
  constexpr std::uint32_t kStep = 10007;
  EXPECT_LT(largest_error(reference::exp2, std::exp2, -125.9f, 127.9f, kStep), 1.0);
  EXPECT_LT(largest_error(reference::exp, std::exp, -87.0f, 88.7f, kStep), 1.25);
  EXPECT_LT(largest_error(reference::log, std::log, 0x1p-126f, 3e38f, kStep), 1.0);
  EXPECT_LT(largest_error(reference::log1p, std::log1p, -0.99999994f, 3e38f, kStep), 2.0);
  EXPECT_LT(largest_error(reference::tanh, std::tanh, -20.0f, 20.0f, kStep), 2.0);
  EXPECT_LT(largest_error(reference::erf, std::erf, -6.0f, 6.0f, kStep), 1.25);
  EXPECT_LT(largest_error(
                reference::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, -87.0f, 87.0f, kStep),
            2.5);
}

TEST(KernelsMathReference, SpecialValues) {
  DenormalsOff off;
  constexpr float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(reference::exp2(-126.0f), 0.0f);
  EXPECT_GT(reference::exp2(-125.999f), 0.0f);
  EXPECT_EQ(reference::exp2(10.0f), 1024.0f);
  EXPECT_EQ(reference::exp2(128.0f), inf);
  EXPECT_EQ(reference::exp(0.0f), 1.0f);
  EXPECT_EQ(reference::exp(-inf), 0.0f);
  EXPECT_EQ(reference::exp(inf), inf);
  EXPECT_EQ(reference::log(1.0f), 0.0f);
  EXPECT_EQ(reference::log(0.0f), -inf);
  EXPECT_EQ(reference::log(float_of(1)), -inf);  // a denormal counts as zero
  EXPECT_EQ(reference::log(inf), inf);
  EXPECT_TRUE(std::isnan(reference::log(-1.0f)));
  EXPECT_EQ(reference::log1p(-1.0f), -inf);
  EXPECT_EQ(reference::tanh(inf), 1.0f);
  EXPECT_EQ(reference::tanh(-inf), -1.0f);
  EXPECT_EQ(reference::erf(inf), 1.0f);
  EXPECT_EQ(reference::silu(0.0f), 0.0f);
  EXPECT_EQ(reference::relu(-3.0f), 0.0f);
}

}  // namespace
}  // namespace mortise::cpu
