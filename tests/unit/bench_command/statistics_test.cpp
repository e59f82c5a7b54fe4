#include "bench_command/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace mortise::bench {
namespace {

TEST(BenchStatistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 2, 100}), 3);  // 26.75: the mean, which one slow sample moves
}

// The table of two-sided 5 % critical values that textbooks print (Wilcoxon 1945).
TEST(BenchStatistics, SignedRankCriticalValuesAreThoseOfTheTables) {
  EXPECT_EQ(signed_rank_critical(5), std::nullopt);
  EXPECT_EQ(signed_rank_critical(6), 0u);
  EXPECT_EQ(signed_rank_critical(7), 2u);
  EXPECT_EQ(signed_rank_critical(8), 3u);
  EXPECT_EQ(signed_rank_critical(10), 8u);
  EXPECT_EQ(signed_rank_critical(15), 25u);
  EXPECT_EQ(signed_rank_critical(20), 52u);
  EXPECT_EQ(signed_rank_critical(25), 89u);
}

TEST(BenchStatistics, FewerThanSixPairsHaveARatioAndNoBound) {
  const PairedRatio ratio = paired_ratio(std::vector<double>(5, 2.0), std::vector<double>(5, 3.0));
  EXPECT_DOUBLE_EQ(ratio.ratio, 1.5);
  EXPECT_FALSE(ratio.bound.has_value());
}

TEST(BenchStatistics, SixPairsAreBoundedByTheirExtremes) {
  const std::vector<double> a(6, 1.0), b = {1.01, 1.02, 1.03, 1.04, 1.05, 1.06};
  const PairedRatio ratio = paired_ratio(a, b);
  ASSERT_TRUE(ratio.bound.has_value());
  EXPECT_DOUBLE_EQ(ratio.bound->low, 1.01);
  EXPECT_DOUBLE_EQ(ratio.bound->high, 1.06);
  EXPECT_NEAR(ratio.ratio, 1.035, 0.0005);
}

TEST(BenchStatistics, SwappingTheSidesInvertsTheRatioAndItsBound) {
  const std::vector<double> a = {1, 2, 3, 4, 5, 6, 7, 8}, b = {1.2, 2.1, 3.6, 4.1, 5.2, 6.6, 7.1, 8.9};
  const PairedRatio forth = paired_ratio(a, b), back = paired_ratio(b, a);
  EXPECT_NEAR(forth.ratio * back.ratio, 1, 1e-12);
  EXPECT_NEAR(forth.bound->low * back.bound->high, 1, 1e-12);
  EXPECT_NEAR(forth.bound->high * back.bound->low, 1, 1e-12);
}

// The machine's speed moves by half from pair to pair; a difference of 3 % shows all the same.
TEST(BenchStatistics, WhatSlowsBothSidesOfAPairCancels) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> machine(0.6, 1.2), noise(0.99, 1.01);
  std::vector<double> a, b;
  for (int i = 0; i < 15; ++i) {
    const double speed = machine(random);
    a.push_back(100 * speed * noise(random));
    b.push_back(103 * speed * noise(random));
  }
  const PairedRatio ratio = paired_ratio(a, b);
  EXPECT_GT(ratio.bound->low, 1.0);
  EXPECT_LT(ratio.bound->low, 1.03);
  EXPECT_GT(ratio.bound->high, 1.03);
}

// Equal sides, noise with long tails: at most one bound in twenty may lie beside 1.
TEST(BenchStatistics, TheBoundHoldsTheTruthInNineteenOfTwentyRuns) {
  std::mt19937 random(7);
  std::cauchy_distribution<double> noise(0, 0.01);
  int missed = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> a(12, 1.0), b;
    for (int i = 0; i < 12; ++i) b.push_back(std::exp(noise(random)));
    const Bound bound = *paired_ratio(a, b).bound;
    if (bound.low > 1 || bound.high < 1) ++missed;
  }
  EXPECT_LE(missed, kRuns * 6 / 100);  // 5 %, and the error of counting 2000 runs
  EXPECT_GT(missed, kRuns / 100);      // fewer: the bound is wider than it needs to be
}

}  // namespace
}  // namespace mortise::bench
