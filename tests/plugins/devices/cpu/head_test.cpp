// head_reduce, sample and verify_drafts through the device: rows are independent, calls may cover any number of slices.
// Covers: plugins/kernels/cpu/reference/verify_draft
#include <algorithm>
#include <cmath>

#include "device_fixture.hpp"
#include "draws.hpp"
#include "kernels/cpu/reference/head_reduce.hpp"
#include "kernels/cpu/reference/sample_token.hpp"
#include "kernels/cpu/reference/verify_draft.hpp"
#include "mortise/ext/rejection.h"

namespace mortise::cpu {
namespace {

class Head : public OnEachDevice {
 protected:
  std::vector<float> row_of(const std::vector<float>& logits, std::size_t r) const {
    return {&logits[r * kVocab], &logits[r * kVocab] + kVocab};
  }
};

TEST_P(Head, ReductionsHaveTheReferencesBitsInAnyNumberOfCalls) {
  std::mt19937 rng(1);
  const std::vector<float> logits = random_values<float>(rng, kRows * kVocab, Values::kSpecial);
  const auto slice = static_cast<std::size_t>(table().vocab_slice(device_.get()));
  ASSERT_EQ(slice, 2048u);  // part of the numerics id
  constexpr std::size_t kTop = 5;
  std::vector<std::int32_t> targets(kRows);
  for (std::int32_t& t : targets) t = static_cast<std::int32_t>(rng() % kVocab);
  targets[2] = -1;
  for (const std::size_t step : {slice, 2 * slice, 3 * slice}) {
    std::vector<float> max(kRows, 9), sum(kRows, 9), target_logits(kRows, 9), lse(kRows, 9), top(kRows * kTop, 9);
    std::vector<std::int32_t> ranks(kRows, 9), ids(kRows * kTop, 9);
    const auto reduce = [&](bool second_pass) {
      const std::size_t width = second_pass ? step / 32 : step;  // sums need slices, ranks do not
      for (std::size_t begin = 0; begin < kVocab; begin += width) {
        mortise_tensor view = matrix(logits, kRows, std::min(width, kVocab - begin), kVocab);
        view.data = static_cast<float*>(view.data) + begin;
        view.bytes -= begin * sizeof(float);
        auto args = sized<mortise_head_reduce_args>();
        args.logits = &view;
        args.vocab_begin = static_cast<int32_t>(begin);
        args.first = begin == 0;
        args.targets = targets.data();
        args.target_logits = target_logits.data();
        if (second_pass) {
          args.ranks = ranks.data();
        } else {
          args.max = max.data(), args.sum = sum.data(), args.lse = lse.data();
          args.top_n = kTop, args.top_ids = ids.data(), args.top_logits = top.data();
        }
        expect_ok(table().head_reduce(device_.get(), nullptr, &args, &device_.error));
      }
    };
    reduce(false);
    reduce(true);
    const DenormalsOff denormals_off;
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::vector<float> row = row_of(logits, r);
      const reference::LogSumExp expected = reference::log_sum_exp(row);
      const auto order = reference::ordered(row);
      EXPECT_TRUE(same_bits(&expected.max, &max[r], 1));
      EXPECT_TRUE(same_bits(&expected.sum, &sum[r], 1));
      EXPECT_TRUE(same_bits(&expected.lse, &lse[r], 1));
      for (std::size_t i = 0; i < kTop; ++i) {
        EXPECT_EQ(ids[r * kTop + i], order[i].second);
        EXPECT_EQ(top[r * kTop + i], order[i].first);
      }
      const auto at = std::find_if(order.begin(), order.end(), [&](const auto& t) { return t.second == targets[r]; });
      EXPECT_EQ(ranks[r], at == order.end() ? 0 : at - order.begin());
      EXPECT_EQ(target_logits[r], at == order.end() ? -INFINITY : at->first);
    }
  }
}

TEST_P(Head, SampleDrawsTheReferencesTokensAndLeavesTheLogits) {
  std::mt19937 rng(2);
  const std::vector<float> logits = random_values<float>(rng, kRows * kVocab), before = logits;
  Draws draws;
  const mortise_tensor view = matrix(logits, kRows, kVocab);
  const mortise_sample_args args = draws.args(view);
  expect_ok(table().sample(device_.get(), nullptr, &args, &device_.error));
  EXPECT_TRUE(same_bits(before, logits));
  const DenormalsOff denormals_off;
  for (std::size_t r = 0; r < kRows; ++r) {
    const reference::Sampled expected = draws.expected(row_of(logits, r), r);
    EXPECT_EQ(draws.tokens[r], expected.token) << r;
    EXPECT_TRUE(same_bits(&expected.logprob, &draws.logprobs[r], 1)) << r;
  }
}

TEST_P(Head, DraftsAreVerifiedAsByTheReference) {
  const auto& rejection =
      *static_cast<const mortise_rejection_table*>(table().get_ext(device_.get(), MORTISE_EXT_REJECTION));
  std::mt19937 rng(3);
  std::vector<float> numbers = random_values<float>(rng, 2 * kVocab);
  for (float& x : numbers) x = std::exp(2 * x);
  const mortise_tensor distributions = matrix(numbers, 2, kVocab);
  const std::vector<std::int32_t> distribution_rows = {0, 1, -1, 0, 0, 1, -1};
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<float> logits = random_values<float>(rng, kRows * kVocab);
    for (float& x : logits) x *= static_cast<float>(trial % 5);
    Draws draws;
    const mortise_tensor view = matrix(logits, kRows, kVocab);
    const mortise_sample_args rows = draws.args(view);
    std::vector<std::int32_t> drafts(kRows, -1);
    for (std::size_t r = 0; r < kRows; ++r) {
      draws.keys[r] += static_cast<std::uint64_t>(trial);
      // A likely draft of each second trial, so that some are accepted.
      if (r != 2) drafts[r] = static_cast<std::int32_t>(rng() % kVocab);
      if (trial % 2 == 0 && drafts[r] >= 0) drafts[r] = draws.expected(row_of(logits, r), r).token;
    }
    auto args = sized<mortise_verify_drafts_args>();
    args.rows = &rows;
    args.drafts = drafts.data();
    args.distributions = &distributions;
    if (trial % 3 != 0) args.distribution_rows = distribution_rows.data();
    expect_ok(rejection.verify_drafts(device_.get(), nullptr, &args, &device_.error));
    const DenormalsOff denormals_off;
    for (std::size_t r = 0; r < kRows; ++r) {
      const float* const distribution = args.distribution_rows == nullptr || distribution_rows[r] < 0
                                            ? nullptr
                                            : &numbers[static_cast<std::size_t>(distribution_rows[r]) * kVocab];
      const std::vector<float> row = row_of(logits, r);
      const std::int32_t expected =
          drafts[r] < 0 ? -9 : reference::verify_draft(draws.row_of(row, r), -9, drafts[r], distribution);
      EXPECT_EQ(draws.tokens[r], expected) << "trial " << trial << " row " << r;
    }
  }
}

MORTISE_ON_EACH_DEVICE(Head);

}  // namespace
}  // namespace mortise::cpu
