#include "models/llama/exact_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

namespace mortise::llama {
namespace {

// libm's double functions are off by less than one unit of a double, which is exact enough for rounding to f32.
constexpr double kRelative = 1e-14;  // 2^-24 = 6e-8 is half a unit of f32: what is left is nearly always the same f32

float random_angle(std::mt19937_64& random) {
  const auto exponent = static_cast<uint32_t>(127 - 20 + random() % 38);  // 2^-20 to 2^18
  return std::bit_cast<float>(exponent << 23 | static_cast<uint32_t>(random() & 0x7fffff));
}

TEST(ExactMath, SineAndCosineAreThoseOfLibmToAFractionOfAnF32Unit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 400000; ++i) {
    const float x = i < 100000 ? static_cast<float>(i) : random_angle(random);
    const SinCos found = sin_cos(x);
    EXPECT_NEAR(found.sin, std::sin(double{x}), kRelative * std::fabs(std::sin(double{x}))) << x;
    EXPECT_NEAR(found.cos, std::cos(double{x}), kRelative * std::fabs(std::cos(double{x}))) << x;
  }
}

TEST(ExactMath, SineAndCosineHoldAtTheEdgesOfTheirRange) {
  EXPECT_EQ(sin_cos(0.0f).sin, 0.0);
  EXPECT_EQ(sin_cos(0.0f).cos, 1.0);
  for (const float x :
       {0x1p-126f, 0x1.921fb6p-1f, 0x1.921fb6p+0f, 0x1.921fb6p+1f, 0x1.6cbe4p+2f, 0x1p24f, 0x1.fffffep24f}) {
    EXPECT_NEAR(sin_cos(x).sin, std::sin(double{x}), kRelative * std::fabs(std::sin(double{x}))) << x;
    EXPECT_NEAR(sin_cos(x).cos, std::cos(double{x}), kRelative * std::fabs(std::cos(double{x}))) << x;
  }
}

TEST(ExactMath, PowersAreThoseOfLibmToAFractionOfAnF32Unit) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  for (int i = 0; i < 200000; ++i) {
    const double base = std::exp(unit(random) * 34.0);  // 1 to 6e14
    const double exponent = unit(random);
    const double expected = std::pow(base, exponent);
    EXPECT_NEAR(power(base, exponent), expected, kRelative * expected) << base << " ^ " << exponent;
  }
  EXPECT_EQ(power(10000.0, 0.0), 1.0);
  EXPECT_EQ(power(1.0, 0.7), 1.0);
}

// Every machine and every compiler must give this hash. Another one means that a compiler contracted or reassociated
// something.
TEST(ExactMath, BitsAreTheSameOnEveryMachine) {
  uint64_t hash = 0;
  const auto mix = [&](double value) { hash = (hash ^ std::bit_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u; };
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const SinCos value = sin_cos(random_angle(random));
    mix(value.sin);
    mix(value.cos);
    const double base = static_cast<double>(random() >> 40) + 1.0;
    const double exponent = static_cast<double>(random() >> 40) * 0x1p-24;
    mix(power(base, exponent));
  }
  EXPECT_EQ(hash, 6954581331019400257u);
}

TEST(ExactMath, LogarithmsAreThoseOfLibm) {
  std::mt19937_64 random(3);
  EXPECT_EQ(log2_of(1.0), 0.0);
  EXPECT_EQ(log2_of(0.125), -3.0);
  for (int i = 0; i < 100000; ++i) {
    const double x =
        std::ldexp(1.0 + static_cast<double>(random() >> 11) * 0x1p-53, static_cast<int>(random() % 200) - 100);
    EXPECT_NEAR(log2_of(x), std::log2(x), kRelative * std::max(1.0, std::fabs(std::log2(x)))) << x;
  }
}

}  // namespace
}  // namespace mortise::llama
