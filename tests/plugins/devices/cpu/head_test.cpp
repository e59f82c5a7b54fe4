// head_reduce and sample through the device: rows are independent, calls may cover any number of slices.
// Covers: plugins/devices/checks/head
#include <algorithm>
#include <cmath>

#include "device_fixture.hpp"
#include "kernels/cpu/reference/head_reduce.hpp"
#include "kernels/cpu/reference/sample_token.hpp"

namespace mortise::cpu {
namespace {

constexpr std::size_t kRows = 7, kVocab = 5000;

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

// The arrays of `sample` for kRows rows with different options.
struct Draws {
  std::vector<float> temperatures = {0, 1, 1, 0.7f, 2, 1, 1}, top_ps = {1, 1, 0.9f, 0.5f, 1, 1, 0.95f};
  std::vector<float> min_ps = {0, 0, 0, 0, 0.05f, 0, 0};
  std::vector<std::int32_t> top_ks = {0, 0, 0, 40, 0, 1, -1};
  std::vector<std::uint64_t> keys = {1, 2, 3, 4, 5, 6, 0xffffffffffffffff};
  std::vector<std::int64_t> positions = {0, 1, 77, 77, 1ll << 33, 5, 6};
  std::vector<mortise_logit_edit> edits = {
      {0, 0, 0.9f, 0.5f}, {}, {77, -INFINITY, 1, 0}, {5, 5, 1.2f, 0}, {4999, 2, 1, 1}};
  std::vector<std::int32_t> edit_begins = {0, 2, 0, 0, 4, 0, 0}, edit_counts = {0, 2, 0, 0, 1, 0, 1};
  std::vector<std::int32_t> allowed_index = {-1, -1, -1, 1, -1, 0, -1};
  std::vector<std::uint32_t> allowed_masks = std::vector<std::uint32_t>(2 * ((kVocab + 31) / 32), 0xf0f0f0f0u);
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(kRows, -9);
  std::vector<float> logprobs = std::vector<float>(kRows, 9);

  mortise_sample_args args(const mortise_tensor& logits) {
    auto a = sized<mortise_sample_args>();
    a.logits = &logits;
    a.temperatures = temperatures.data(), a.top_ks = top_ks.data(), a.top_ps = top_ps.data(), a.min_ps = min_ps.data();
    a.keys = keys.data(), a.positions = positions.data();
    a.edits = edits.data(), a.edit_begins = edit_begins.data(), a.edit_counts = edit_counts.data();
    a.allowed_index = allowed_index.data(), a.allowed_masks = allowed_masks.data();
    a.tokens = tokens.data(), a.processed_logprobs = logprobs.data();
    return a;
  }
  reference::Sampled expected(const std::vector<float>& row, std::size_t r) const {
    SampleRow s = {};
    s.logits = row.data(), s.vocab_size = row.size();
    s.temperature = temperatures[r], s.top_k = top_ks[r], s.top_p = top_ps[r], s.min_p = min_ps[r];
    s.key = keys[r], s.position = static_cast<std::uint64_t>(positions[r]);
    s.num_edits = static_cast<std::size_t>(edit_counts[r]);
    s.edits = reinterpret_cast<const LogitEdit*>(edits.data()) + edit_begins[r];
    if (allowed_index[r] >= 0) s.allowed = &allowed_masks[0] + allowed_index[r] * ((kVocab + 31) / 32);
    return reference::sample_token(s);
  }
};

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

MORTISE_ON_EACH_DEVICE(Head);

using HeadMistakes = OneDevice;

TEST_F(HeadMistakes, ReductionsNeedMatchingArrays) {
  const std::vector<float> logits(100);
  std::vector<float> state(10);
  std::vector<std::int32_t> ints(10);
  const mortise_tensor view = matrix(logits, 2, 50);
  auto args = sized<mortise_head_reduce_args>();
  const auto expect = [&](const char* text) {
    expect_invalid(table().head_reduce(device_.get(), nullptr, &args, &device_.error), text);
    args = sized<mortise_head_reduce_args>();
    args.logits = &view;
  };
  expect("logits is missing");
  args.vocab_begin = 64;
  args.max = args.sum = state.data();
  expect("vocab_begin is 64; max and sum need a multiple of 2048");
  args.max = state.data();
  expect("max and sum go together");
  args.lse = state.data();
  expect("lse needs max and sum");
  args.ranks = ints.data();
  expect("ranks need targets");
  args.top_n = 3;
  expect("top_n is 3");
}

TEST_F(HeadMistakes, SampleRefusesEditsThatNameNoToken) {
  const std::vector<float> logits(kRows * kVocab);
  const mortise_tensor view = matrix(logits, kRows, kVocab);
  Draws draws;
  mortise_sample_args args = draws.args(view);
  const auto expect = [&](const char* text) {
    expect_invalid(table().sample(device_.get(), nullptr, &args, &device_.error), text);
  };
  draws.edits[4].token = static_cast<std::int32_t>(kVocab);
  expect("edits[4] of row 4 is of token 5000; expected one below 5000");
  draws.edits[4].token = -1;
  expect("edits[4] of row 4 is of token -1");
  draws.edit_counts[1] = -2;
  expect("row 1 has -2 edits from 2 on");
  args.edits = nullptr;
  expect("edits is missing");
  args.edit_counts = nullptr;
  expect("edit_counts is missing");
  args.temperatures = nullptr;
  expect("temperatures is missing");
}

}  // namespace
}  // namespace mortise::cpu
