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
  const auto edits = make_edits(params, counts, banned);
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
  EXPECT_TRUE(make_edits({}, counts, {}).empty());
}

}  // namespace
}  // namespace mortise
