// The draft model of the suite depends on every token, and draws as a device does.
#include "conformance/draft_function.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "mortise/numerics.h"

namespace mortise::conformance {
namespace {

using Logits = std::array<float, kDraftVocabSize>;

DraftText text_of_tokens(const std::vector<std::int32_t>& tokens) {
  DraftText text;
  for (const std::int32_t token : tokens) text.append(token);
  return text;
}

Logits logits_of(const DraftText& text) {
  Logits logits;
  text.write_logits(logits);
  return logits;
}

TEST(DraftFunction, EveryTokenCountsAndWhatWasCutDoesNot) {
  const Logits logits = logits_of(text_of_tokens({1, 2, 3, 4}));
  EXPECT_NE(logits, logits_of(text_of_tokens({9, 2, 3, 4})));
  EXPECT_NE(logits, logits_of(text_of_tokens({2, 3, 4})));
  DraftText cut = text_of_tokens({1, 2, 3, 7, 7});
  cut.cut(3);
  cut.append(4);
  EXPECT_EQ(logits, logits_of(cut));
}

TEST(DraftFunction, ATextThatRepeatsItselfIsMostlyContinued) {
  int continued = 0, foreign = 0;
  for (std::int32_t first = 0; first < 400; ++first) {
    const auto drawn = draw_choices(logits_of(text_of_tokens({first, 30, 40, 50, first, 30, 40})), {}, 7, 1);
    continued += drawn[0] == 50;
    foreign += drawn[0] >= kVocabSize;
  }
  EXPECT_GT(continued, 200);
  EXPECT_LT(continued, 380);
  EXPECT_GT(foreign, 0);  // 0: no case would see what a proposer does with a token that the target lacks
}

TEST(DraftFunction, WhatTheModelHasNoEmbeddingForOrIsTooLongDoesNotRun) {
  EXPECT_TRUE(text_of_tokens({0, kDraftVocabSize - 1}).can_run());
  EXPECT_FALSE(text_of_tokens({0, kDraftVocabSize}).can_run());
  EXPECT_FALSE(text_of_tokens({-1, 0}).can_run());
  EXPECT_TRUE(text_of_tokens(std::vector<std::int32_t>(kMaxModelLen, 1)).can_run());
  EXPECT_FALSE(text_of_tokens(std::vector<std::int32_t>(kMaxModelLen + 1, 1)).can_run());
}

// The first of several choices, and a single one, is what mortise/numerics.h draws.
TEST(DraftFunction, TokensAreDrawnAsTheSpecificationSays) {
  std::array<mortise_candidate, kDraftVocabSize> scratch;
  for (const float temperature : {0.0f, 0.7f}) {
    for (std::int32_t token = 0; token < 50; ++token) {
      const Logits logits = logits_of(text_of_tokens({token, 5}));
      const DraftDraw draw{99, temperature, 40, 0.9f, 0.01f};
      mortise_sample_row row{};
      row.logits = logits.data();
      row.vocab_size = kDraftVocabSize;
      row.temperature = draw.temperature;
      row.top_k = draw.top_k;
      row.top_p = draw.top_p;
      row.min_p = draw.min_p;
      row.key = draw.key;
      row.position = 2;
      const std::int32_t expected = mortise_sample_token(&row, scratch.data(), nullptr);
      EXPECT_EQ(draw_choices(logits, draw, 2, 1), std::vector<std::int32_t>{expected});
      const auto choices = draw_choices(logits, draw, 2, 4);
      EXPECT_EQ(choices[0], expected);
      EXPECT_EQ(std::set<std::int32_t>(choices.begin(), choices.end()).size(), 4u);
    }
  }
}

}  // namespace
}  // namespace mortise::conformance
