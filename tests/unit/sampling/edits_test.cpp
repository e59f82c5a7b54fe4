#include "sampling/edits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace mortise {
namespace {

std::vector<LogitEdit> by_token(std::span<const LogitEdit> edits) {
  std::vector<LogitEdit> sorted(edits.begin(), edits.end());
  std::ranges::sort(sorted, {}, &LogitEdit::token);
  return sorted;
}

void expect_equal(const LogitEdit& edit, const LogitEdit& wanted) {
  EXPECT_EQ(edit.token, wanted.token);
  EXPECT_EQ(edit.bias, wanted.bias);
  EXPECT_EQ(edit.repetition, wanted.repetition);
  EXPECT_EQ(edit.subtract, wanted.subtract);  // to the bit: summing up the draft's share would not be
}

TEST(SequenceEdits, CombinesBiasPenaltiesAndBans) {
  SamplingParams params;
  params.logit_bias = {{9, 2.0f}};
  params.repetition_penalty = 1.5f;
  params.frequency_penalty = 0.5f;
  params.presence_penalty = 0.25f;
  const std::int32_t prompt[] = {7};
  SequenceEdits sequence(params, prompt);
  sequence.add_generated(9);
  sequence.add_generated(9);
  const std::int32_t banned[] = {3};
  const auto edits = by_token(sequence.with({}, banned));
  ASSERT_EQ(edits.size(), 3u);
  EXPECT_EQ(edits[0].token, 3);
  EXPECT_TRUE(std::isinf(edits[0].bias) && edits[0].bias < 0);
  EXPECT_EQ(edits[1].token, 7);  // a prompt token: the repetition penalty counts it, the others do not
  EXPECT_EQ(edits[1].repetition, 1.5f);
  EXPECT_EQ(edits[1].subtract, 0.0f);
  EXPECT_EQ(edits[2].token, 9);
  EXPECT_EQ(edits[2].bias, 2.0f);
  EXPECT_EQ(edits[2].subtract, 2 * 0.5f + 0.25f);
}

TEST(SequenceEdits, NothingAskedMeansNoEdits) {
  const SamplingParams params;
  const std::int32_t prompt[] = {1, 2};
  SequenceEdits sequence(params, prompt);
  sequence.add_generated(1);
  EXPECT_TRUE(sequence.current().empty());
  EXPECT_TRUE(sequence.with(prompt, {}).empty());
}

TEST(SequenceEdits, DraftsCountAsIfTheyHadBeenGenerated) {
  SamplingParams params;
  params.repetition_penalty = 1.1f;
  params.frequency_penalty = 0.3f;
  params.presence_penalty = 0.7f;
  params.logit_bias = {{2, 1.5f}, {40, -3.0f}};
  const std::int32_t prompt[] = {5, 2, 8, 2};
  SequenceEdits sequence(params, prompt);
  for (std::int32_t token : {5, 5, 30}) sequence.add_generated(token);
  const std::int32_t drafts[] = {5, 8, 31, 1, 31, 8, 5}, banned[] = {1, 30, 50};
  for (std::size_t n = 0; n <= std::size(drafts); ++n) {
    SequenceEdits all = sequence;
    for (std::size_t i = 0; i < n; ++i) all.add_generated(drafts[i]);
    const auto expected = by_token(all.with({}, banned));
    const auto edits = by_token(sequence.with(std::span(drafts).first(n), banned));
    ASSERT_EQ(edits.size(), expected.size());
    for (std::size_t i = 0; i < edits.size(); ++i) expect_equal(edits[i], expected[i]);
  }
}

TEST(SequenceEdits, TokensAppearOnceHoweverOftenTheyAreNamed) {
  SamplingParams params;
  params.logit_bias = {{3, 5.0f}};
  params.presence_penalty = 1.0f;
  SequenceEdits sequence(params, {});
  sequence.add_generated(3);
  const std::int32_t banned[] = {3, 3, 4};
  const auto edits = by_token(sequence.with({}, banned));
  ASSERT_EQ(edits.size(), 2u);
  EXPECT_TRUE(std::isinf(edits[0].bias) && edits[0].bias < 0);
  EXPECT_EQ(edits[0].subtract, 1.0f);
  EXPECT_EQ(edits[1].token, 4);
}

// Against a count of the whole history, whatever comes in which order; and a copy that takes over what changes() tells,
// now and then, as a device's does.
TEST(SequenceEdits, AreThoseOfTheWholeHistoryAfterEachToken) {
  SamplingParams params;
  params.repetition_penalty = 1.3f;
  params.frequency_penalty = 0.1f;
  params.presence_penalty = 0.6f;
  params.logit_bias = {{4, 2.5f}, {90, -1.0f}};
  std::mt19937 random(3);
  std::map<std::int32_t, int> generated;
  std::vector<std::int32_t> prompt;
  for (int i = 0; i < 40; ++i) {
    prompt.push_back(static_cast<std::int32_t>(random() % 100));
    generated[prompt.back()] += 0;
  }
  SequenceEdits sequence(params, prompt);
  std::vector<LogitEdit> copy(sequence.current().begin(), sequence.current().end());
  std::size_t num_changes = 0;
  for (int step = 0; step < 200; ++step) {
    const auto token = static_cast<std::int32_t>(random() % 100);
    ++generated[token];
    sequence.add_generated(token);
    std::map<std::int32_t, LogitEdit> expected;
    for (const auto& [id, bias] : params.logit_bias) expected[id] = {id, bias, 1.0f, 0.0f};
    for (const auto& [id, count] : generated) {
      LogitEdit& edit = expected.try_emplace(id, LogitEdit{id, 0.0f, 1.0f, 0.0f}).first->second;
      edit.repetition = params.repetition_penalty;
      if (count > 0) {
        edit.subtract = params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
      }
    }
    const auto edits = by_token(sequence.current());
    ASSERT_EQ(edits.size(), expected.size());
    auto edit = edits.begin();
    for (const auto& [id, wanted] : expected) expect_equal(*edit++, wanted);

    if (random() % 3 != 0) continue;
    copy.resize(sequence.current().size());
    for (; num_changes < sequence.changes().size(); ++num_changes) {
      const auto at = static_cast<std::size_t>(sequence.changes()[num_changes]);
      copy[at] = sequence.current()[at];
    }
    for (std::size_t i = 0; i < copy.size(); ++i) expect_equal(copy[i], sequence.current()[i]);
  }
  EXPECT_EQ(sequence.changes().size(), 200u);
}

}  // namespace
}  // namespace mortise
