#include "sampling/edits.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace mortise {
namespace {

TEST(MakeEdits, CombinesBiasPenaltiesAndBansInAscendingOrder) {
  SamplingParams params;
  params.logit_bias = {{9, 2.0f}};
  params.repetition_penalty = 1.5f;
  params.frequency_penalty = 0.5f;
  params.presence_penalty = 0.25f;
  TokenCounts counts;
  counts.add_prompt(7);
  counts.add_generated(9);
  counts.add_generated(9);
  const std::int32_t banned[] = {3};
  const auto edits = make_edits(params, counts, {}, banned);
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

TEST(MakeEdits, NothingAskedMeansNoEdits) {
  TokenCounts counts;
  counts.add_generated(1);
  EXPECT_TRUE(make_edits({}, counts, {}, {}).empty());
}

TEST(MakeEdits, DraftsCountAsIfTheyHadBeenGenerated) {
  SamplingParams params;
  params.repetition_penalty = 1.1f;
  params.frequency_penalty = 0.3f;
  params.presence_penalty = 0.7f;
  params.logit_bias = {{2, 1.5f}, {40, -3.0f}};
  TokenCounts counts;
  for (std::int32_t token : {5, 2, 8}) counts.add_prompt(token);
  for (std::int32_t token : {5, 5, 30}) counts.add_generated(token);
  const std::int32_t drafts[] = {5, 8, 31, 1, 31, 8, 5}, banned[] = {1, 30, 50};
  for (std::size_t n = 0; n <= std::size(drafts); ++n) {
    TokenCounts all = counts;
    for (std::size_t i = 0; i < n; ++i) all.add_generated(drafts[i]);
    const auto expected = make_edits(params, all, {}, banned);
    const auto edits = make_edits(params, counts, std::span(drafts).first(n), banned);
    ASSERT_EQ(edits.size(), expected.size());
    for (std::size_t i = 0; i < edits.size(); ++i) {
      EXPECT_EQ(edits[i].token, expected[i].token);
      EXPECT_EQ(edits[i].bias, expected[i].bias);
      EXPECT_EQ(edits[i].repetition, expected[i].repetition);
      EXPECT_EQ(edits[i].subtract, expected[i].subtract);  // to the bit: summing up the draft's share would not be
    }
  }
}

TEST(MakeEdits, TokensAppearOnceHoweverOftenTheyAreNamed) {
  SamplingParams params;
  params.logit_bias = {{3, 5.0f}};
  params.presence_penalty = 1.0f;
  TokenCounts counts;
  counts.add_generated(3);
  const std::int32_t banned[] = {3, 3, 4};
  const auto edits = make_edits(params, counts, {}, banned);
  ASSERT_EQ(edits.size(), 2u);  // 4: the device refuses ids that do not ascend
  EXPECT_TRUE(std::isinf(edits[0].bias) && edits[0].bias < 0);
  EXPECT_EQ(edits[0].subtract, 1.0f);
  EXPECT_EQ(edits[1].token, 4);
}

}  // namespace
}  // namespace mortise
