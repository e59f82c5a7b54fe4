#include "sampling/distribution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace mortise {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> logs(std::vector<double> weights) {
  std::vector<float> logits;
  for (double weight : weights) logits.push_back(static_cast<float>(std::log(weight)));
  return logits;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << "token " << i;
}

std::vector<double> target_distribution(std::span<const float> logits, const RowSampling& row) {
  std::vector<double> p;
  const std::vector<std::uint64_t> weights = target_weights(logits, row);
  const auto total = std::max(1.0, static_cast<double>(std::accumulate(weights.begin(), weights.end(), 0ull)));
  for (const std::uint64_t weight : weights) p.push_back(static_cast<double>(weight) / total);
  return p;
}

TEST(TargetDistribution, WithoutParametersIsTheSoftmax) {
  expect_near(target_distribution(logs({1, 2, 5, 2}), {}), {0.1, 0.2, 0.5, 0.2});
}

TEST(TargetDistribution, TemperatureSharpens) {
  RowSampling row;
  row.temperature = 0.5f;
  expect_near(target_distribution(logs({1, 2, 5}), row), {1 / 30.0, 4 / 30.0, 25 / 30.0});
}

TEST(TargetDistribution, TopKKeepsTheLowestIdsAmongEquals) {
  RowSampling row;
  row.top_k = 2;
  expect_near(target_distribution(logs({1, 2, 5, 2}), row), {0, 2 / 7.0, 5 / 7.0, 0});
}

TEST(TargetDistribution, TopPKeepsTheShortestPrefixThatReachesIt) {
  RowSampling row;
  row.top_p = 0.69f;
  expect_near(target_distribution(logs({1, 2, 5, 2}), row), {0, 2 / 7.0, 5 / 7.0, 0});
  row.top_p = 0.71f;
  expect_near(target_distribution(logs({1, 2, 5, 2}), row), {0, 2 / 9.0, 5 / 9.0, 2 / 9.0});
  row.top_p = 1e-6f;  // at least one
  expect_near(target_distribution(logs({1, 2, 5, 2}), row), {0, 0, 1, 0});
}

TEST(TargetDistribution, MinPIsAShareOfTheLargest) {
  RowSampling row;
  row.min_p = 0.3f;
  expect_near(target_distribution(logs({1, 2, 5, 2}), row), {0, 2 / 9.0, 5 / 9.0, 2 / 9.0});
}

TEST(TargetDistribution, FiltersFollowEachOther) {
  RowSampling row;
  row.min_p = 0.3f;  // leaves 1, 2, 3
  row.top_k = 2;     // leaves 1, 2
  row.top_p = 0.6f;  // of those two: 5/7 is enough
  expect_near(target_distribution(logs({1, 2, 5, 2}), row), {0, 0, 1, 0});
}

TEST(TargetDistribution, EditsComeFirstAndBanWithInfinity) {
  const std::vector<LogitEdit> edits = {{2, -kInfinity, 1, 0}, {0, std::log(4.0f), 1, 0}};
  RowSampling row;
  row.edits = edits;
  expect_near(target_distribution(logs({1, 2, 5, 2}), row), {0.5, 0.25, 0, 0.25});
}

TEST(TargetDistribution, RepetitionDividesPositiveLogitsAndMultipliesOthers) {
  const std::vector<LogitEdit> edits = {{0, 0, 2, 0}, {1, 0, 2, 1}};
  RowSampling row;
  row.edits = edits;
  // 2 -> 1; -1 -> -2 -> -3; 0 stays
  const double a = std::exp(1.0), b = std::exp(-3.0), c = 1.0;
  expect_near(target_distribution(std::vector<float>{2, -1, 0}, row),
              {a / (a + b + c), b / (a + b + c), c / (a + b + c)});
}

TEST(TargetDistribution, OnlyAllowedTokensAreLeft) {
  std::vector<float> logits(70, 0.0f);
  const std::vector<std::uint32_t> allowed = {1u << 3, 0, 1u << 5};
  RowSampling row;
  row.allowed = allowed;
  const std::vector<double> p = target_distribution(logits, row);
  EXPECT_EQ(p[3], 0.5);
  EXPECT_EQ(p[69], 0.5);
  EXPECT_EQ(std::accumulate(p.begin(), p.end(), 0.0), 1.0);
}

TEST(TargetDistribution, NaNIsNeverDrawnAndInfinityIsTheLargestNumber) {
  expect_near(target_distribution(std::vector<float>{NAN, 0, kInfinity}, {}), {0, 0, 1});
  const std::vector<double> none = target_distribution(std::vector<float>{NAN, -kInfinity}, {});
  EXPECT_EQ(none, (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace mortise
