// Head reductions against the scalar reference, bit by bit, and against plain double arithmetic.
// Covers: plugins/kernels/cpu/head/clean_logit plugins/kernels/cpu/reference/head_reduce
#include "kernels/cpu/head/head_reduce.hpp"

#include <algorithm>
#include <cmath>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/head_reduce.hpp"

namespace mortise::cpu {
namespace {

constexpr std::size_t kWidths[] = {1, 2, 15, 16, 17, 33, 2047, 2048, 2049, 4096, 5000, 6145};

class HeadReduce : public OnEachIsa {
 protected:
  // Calls f(begin, count) for the vocabulary cut into calls of `slices` slices each.
  template <class F>
  static void in_calls(std::size_t width, std::size_t slices, F f) {
    const std::size_t step = slices * kVocabSlice;
    for (std::size_t begin = 0; begin < width; begin += step) f(begin, std::min(step, width - begin));
  }
};

std::vector<float> logits_with_ties(std::mt19937& rng, std::size_t n) {
  std::vector<float> logits(n);
  for (float& x : logits) x = 0.5f * static_cast<float>(static_cast<int>(rng() % 40) - 20);
  return logits;
}

TEST_P(HeadReduce, LogSumExpHasTheReferencesBitsHoweverManySlicesACallCovers) {
  std::mt19937 rng(1);
  for (const std::size_t width : kWidths) {
    for (const Values values : kAllValues) {
      const std::vector<float> logits = random_values<float>(rng, width, values);
      const reference::LogSumExp expected = reference::log_sum_exp(logits);
      for (const std::size_t slices : {1, 2, 100}) {
        float max = -INFINITY, sum = 0;
        in_calls(width, slices, [&](std::size_t begin, std::size_t n) {
          kernels().head.log_sum_exp(logits.data() + begin, n, logits.data(), &max, &sum);
        });
        EXPECT_TRUE(same_bits(&expected.max, &max, 1)) << width;
        EXPECT_TRUE(same_bits(&expected.sum, &sum, 1)) << width;
        float lse = 7;
        kernels().head.log_of_sum(max, sum, &lse);
        EXPECT_TRUE(same_bits(&expected.lse, &lse, 1)) << width;
      }
    }
  }
}

// Whatever is not clean but +infinity, which is what the kernel looks for.
TEST_P(HeadReduce, LogSumExpHasTheReferencesBitsWithNanAndWithoutInfinity) {
  std::mt19937 rng(5);
  for (const float scale : {1.0f, 0x1p-130f, 0x1p100f}) {
    std::vector<float> logits = random_values<float>(rng, 5000);
    constexpr float kStrewn[] = {NAN, -INFINITY, -0.0f, 1e-40f, -1e-40f};
    for (float& x : logits) x = rng() % 8 == 0 ? kStrewn[rng() % std::size(kStrewn)] : scale * x;
    const reference::LogSumExp expected = reference::log_sum_exp(logits);
    float max = -INFINITY, sum = 0;
    kernels().head.log_sum_exp(logits.data(), logits.size(), logits.data(), &max, &sum);
    EXPECT_TRUE(same_bits(&expected.max, &max, 1)) << scale;
    EXPECT_TRUE(same_bits(&expected.sum, &sum, 1)) << scale;
  }
}

TEST_P(HeadReduce, LogSumExpIsThatOfDoubleArithmetic) {
  std::mt19937 rng(2);
  const std::vector<float> logits = random_values<float>(rng, 50000);
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  float max = -INFINITY, sum = 0;
  kernels().head.log_sum_exp(logits.data(), logits.size(), logits.data(), &max, &sum);
  EXPECT_NEAR(max + std::log(static_cast<double>(sum)), std::log(total), 1e-6);
}

TEST_P(HeadReduce, ARowWithoutAFiniteLogitHasNoSum) {
  const std::vector<float> logits(3000, -INFINITY);
  float max = -INFINITY, sum = 0;
  kernels().head.log_sum_exp(logits.data(), logits.size(), logits.data(), &max, &sum);
  EXPECT_EQ(max, -INFINITY);
  EXPECT_EQ(sum, 0.0f);  // NaN: -infinity was subtracted from itself
}

TEST_P(HeadReduce, NanCountsAsMinusInfinityAndInfinityAsTheLargestNumber) {
  const float in[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-40f, -1e-40f, 3.5f};
  const float expected[] = {-INFINITY, 0x1.fffffep+127f, -INFINITY, 0.0f, 0.0f, 0.0f, 3.5f};
  for (std::size_t i = 0; i < std::size(in); ++i) {
    float out = 7;
    kernels().head.clean(&in[i], &out);
    EXPECT_TRUE(same_bits(&expected[i], &out, 1)) << in[i];
    const float scalar = reference::clean(in[i]);
    EXPECT_TRUE(same_bits(&expected[i], &scalar, 1)) << in[i];
  }
}

TEST_P(HeadReduce, RankIsThePlaceInTheOrderLogitDescendingIdAscending) {
  std::mt19937 rng(3);
  for (const std::size_t width : kWidths) {
    std::vector<float> logits = logits_with_ties(rng, width);
    if (width > 20) logits[7] = NAN, logits[11] = INFINITY, logits[13] = -0.0f;
    const auto order = reference::ordered(logits);
    for (int trial = 0; trial < 8; ++trial) {
      const std::size_t place = trial == 0 ? 0 : trial == 1 ? width - 1 : rng() % width;  // +infinity, NaN
      const auto [logit, target] = order[place];
      std::int32_t count = 0;
      in_calls(width, 1, [&](std::size_t begin, std::size_t n) {
        count += kernels().head.count_before(logits.data() + begin, n, static_cast<std::int32_t>(begin), target, logit);
      });
      EXPECT_EQ(count, static_cast<std::int32_t>(place)) << width;
    }
  }
}

TEST_P(HeadReduce, TopNIsTheStartOfTheOrder) {
  std::mt19937 rng(4);
  for (const std::size_t width : kWidths) {
    for (const bool ties : {true, false}) {
      std::vector<float> logits = ties ? logits_with_ties(rng, width) : random_values<float>(rng, width);
      if (width > 20) logits[3] = NAN, logits[5] = INFINITY;
      const auto order = reference::ordered(logits);
      for (const std::size_t n : {1, 2, 20, 100}) {
        std::vector<std::int32_t> ids(n, -1);
        std::vector<float> top(n, -INFINITY);
        in_calls(width, 1, [&](std::size_t begin, std::size_t count) {
          kernels().head.top_n(logits.data() + begin, count, static_cast<std::int32_t>(begin), n, ids.data(),
                               top.data());
        });
        for (std::size_t i = 0; i < n; ++i) {
          const bool exists = i < width;
          EXPECT_EQ(ids[i], exists ? order[i].second : -1) << width << " " << n << " " << i;
          EXPECT_EQ(top[i], exists ? order[i].first : -INFINITY);
        }
      }
    }
  }
}

MORTISE_ON_EACH_ISA(HeadReduce);

}  // namespace
}  // namespace mortise::cpu
