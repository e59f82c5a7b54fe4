#include "sampling/edits.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace mortise {
namespace {

TEST(SequenceEdits, CombinesBiasPenaltiesAndBansInAscendingOrder) {
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
  const auto edits = sequence.with({}, banned);
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
    const auto expected = all.with({}, banned);
    const auto edits = sequence.with(std::span(drafts).first(n), banned);
    ASSERT_EQ(edits.size(), expected.size());
    for (std::size_t i = 0; i < edits.size(); ++i) {
      EXPECT_EQ(edits[i].token, expected[i].token);
      EXPECT_EQ(edits[i].bias, expected[i].bias);
      EXPECT_EQ(edits[i].repetition, expected[i].repetition);
      EXPECT_EQ(edits[i].subtract, expected[i].subtract);  // to the bit: summing up the draft's share would not be
    }
  }
}

TEST(SequenceEdits, TokensAppearOnceHoweverOftenTheyAreNamed) {
  SamplingParams params;
  params.logit_bias = {{3, 5.0f}};
  params.presence_penalty = 1.0f;
  SequenceEdits sequence(params, {});
  sequence.add_generated(3);
  const std::int32_t banned[] = {3, 3, 4};
  const auto edits = sequence.with({}, banned);
  ASSERT_EQ(edits.size(), 2u);  // 4: the device refuses ids that do not ascend
  EXPECT_TRUE(std::isinf(edits[0].bias) && edits[0].bias < 0);
  EXPECT_EQ(edits[0].subtract, 1.0f);
  EXPECT_EQ(edits[1].token, 4);
}

// Against a count of the whole history, whatever comes in which order.
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
  for (int step = 0; step < 200; ++step) {
    const auto token = static_cast<std::int32_t>(random() % 100);
    ++generated[token];
    sequence.add_generated(token);
    std::map<std::int32_t, LogitEdit> expected;
    for (const auto& [id, bias] : params.logit_bias) expected[id].bias = bias;
    for (const auto& [id, count] : generated) {
      expected[id].repetition = params.repetition_penalty;
      if (count > 0) {
        expected[id].subtract = params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
      }
    }
    ASSERT_EQ(sequence.current().size(), expected.size());
    auto edit = sequence.current().begin();
    for (const auto& [id, wanted] : expected) {
      ASSERT_EQ(edit->token, id);
      ASSERT_EQ(edit->bias, wanted.bias);
      ASSERT_EQ(edit->repetition, wanted.repetition);
      ASSERT_EQ(edit->subtract, wanted.subtract);
      ++edit;
    }
  }
}

}  // namespace
}  // namespace mortise
