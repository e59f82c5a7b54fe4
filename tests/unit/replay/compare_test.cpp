#include "replay/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mortise {
namespace {

using testing::HasSubstr;

TokenInfo token(std::int32_t id, float logprob) {
  return {id, logprob, 1, {}};
}

RecordedRequest two_choices() {
  RecordedRequest recorded;
  recorded.request.prompt = {1, 2, 3};
  recorded.request.score_from = 1;
  recorded.request.sampling.n = 2;
  recorded.request.sampling.max_tokens = 50;
  for (float offset : {0.0f, 1.0f}) {
    RecordedChoice& choice = recorded.choices.emplace_back();
    choice.prompt = {token(2, -1), token(3, -2)};
    choice.tokens = {token(7, -0.5f - offset), token(8, -0.25f - offset), token(9, -3 - offset)};
    choice.finish = FinishReason::kLength;
  }
  return recorded;
}

TEST(Compare, EqualRequestsHaveNoDifferenceAndEverythingWasCounted) {
  const Comparison result = compare(two_choices(), two_choices());
  EXPECT_EQ(result.num_tokens, 6u);
  EXPECT_EQ(result.num_logprobs, 10u);
  EXPECT_EQ(result.num_differences, 0u);
  EXPECT_EQ(result.first, std::nullopt);
}

TEST(Compare, OneBitOfALogProbabilityIsADifference) {
  RecordedRequest replayed = two_choices();
  float& value = replayed.choices[1].tokens[2].logprob;
  value = std::nextafter(value, 0.0f);
  const Comparison result = compare(two_choices(), replayed);
  EXPECT_EQ(result.num_differences, 1u);
  EXPECT_EQ(result.first,
            "choice 1, position 5, generated token 3 (9): log probability -4 (0xc0800000) recorded, -3.9999998 "
            "(0xc07fffff) replayed");
  replayed = two_choices();
  replayed.choices[0].prompt[1].logprob = std::nextafter(-2.0f, 0.0f);
  EXPECT_THAT(*compare(two_choices(), replayed).first,
              HasSubstr("choice 0, position 2, prompt token 3: log probability -2 (0xc0000000) recorded"));
}

TEST(Compare, SidesHaveTheNamesThatTheCallerGivesAndTheFirstDifferenceHasAPlace) {
  RecordedRequest other = two_choices();
  other.choices[1].tokens[1].id = 80;
  const Comparison result = compare(two_choices(), other, {"old", "new"});
  EXPECT_EQ(result.first,
            "choice 1, position 4, generated token 2: token 8, log probability -1.25 (0xbfa00000) old; token 80, log "
            "probability -1.25 (0xbfa00000) new");
  ASSERT_TRUE(result.place);
  EXPECT_EQ(result.place->choice, 1u);
  EXPECT_EQ(result.place->position, 4u);
  EXPECT_FALSE(compare(two_choices(), two_choices()).place);
}

TEST(Compare, TheSignOfAZeroCountsAndEqualNansDoNot) {
  RecordedRequest a = two_choices(), b = two_choices();
  a.choices[0].tokens[0].logprob = 0.0f;
  b.choices[0].tokens[0].logprob = -0.0f;
  EXPECT_EQ(compare(a, b).num_differences, 1u);
  a.choices[0].tokens[0].logprob = b.choices[0].tokens[0].logprob = std::nanf("");
  EXPECT_EQ(compare(a, b).num_differences, 0u);
}

TEST(Compare, AfterATokenThatDiffersNothingIsCompared) {
  RecordedRequest replayed = two_choices();
  replayed.choices[0].tokens[1] = token(80, -0.5f);
  replayed.choices[0].tokens[2] = token(81, -0.5f);
  replayed.choices[0].tokens.push_back(token(82, -0.5f));
  const Comparison result = compare(two_choices(), replayed);
  EXPECT_EQ(result.num_differences, 1u);
  EXPECT_EQ(result.num_tokens, 5u);  // 2 of this choice, 3 of the other
  EXPECT_EQ(result.first,
            "choice 0, position 4, generated token 2: token 8, log probability -0.25 (0xbe800000) recorded; token 80, "
            "log probability -0.5 (0xbf000000) replayed");
}

TEST(Compare, AlternativesAreComparedInTheirOrder) {
  RecordedRequest a = two_choices(), b = two_choices();
  a.choices[0].tokens[0].top = {{7, -0.5f}, {4, -1.5f}};
  b.choices[0].tokens[0].top = {{7, -0.5f}, {5, -1.5f}};
  EXPECT_EQ(compare(a, b).num_logprobs, 12u);
  EXPECT_THAT(*compare(a, b).first, HasSubstr("generated token 1 (7): alternative 2: token 4, log probability -1.5"));
  b.choices[0].tokens[0].top.pop_back();
  EXPECT_EQ(compare(a, b).num_differences, 1u);
}

TEST(Compare, AnotherEndIsADifference) {
  RecordedRequest replayed = two_choices();
  replayed.choices[0].finish = FinishReason::kStop;
  EXPECT_EQ(compare(two_choices(), replayed).first,
            "choice 0, position 6, the end: 'length' after 3 tokens recorded, 'stop' after 3 tokens replayed");
  replayed = two_choices();
  replayed.choices[1].tokens.pop_back();
  EXPECT_THAT(*compare(two_choices(), replayed).first, HasSubstr("'length' after 2 tokens replayed"));
  replayed.choices[1].prompt.pop_back();
  EXPECT_THAT(*compare(two_choices(), replayed).first, HasSubstr("scores of the prompt: 2 recorded, 1 replayed"));
  replayed = two_choices();
  replayed.choices[0] = {};
  replayed.choices[0].finish = FinishReason::kError;
  replayed.choices[0].error = "step 3 failed";
  EXPECT_EQ(compare(two_choices(), replayed).num_differences, 2u);
}

TEST(Compare, AnAbortedChoiceIsComparedAsFarAsItGot) {
  RecordedRequest recorded = two_choices();
  recorded.choices[0].finish = FinishReason::kAborted;
  recorded.choices[0].tokens.resize(1);
  recorded.choices[0].prompt.resize(1);
  EXPECT_EQ(compare(recorded, two_choices()).num_differences, 0u);
  RecordedRequest shorter = two_choices();
  shorter.choices[0].tokens.clear();
  EXPECT_EQ(compare(recorded, shorter).num_differences, 1u);
}

TEST(RequestToReplay, AsksForLogProbabilitiesAndIsOtherwiseTheSame) {
  const auto request = request_to_replay(two_choices());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->logprobs, 0);
  EXPECT_EQ(request->sampling.max_tokens, 50);
  RecordedRequest recorded = two_choices();
  recorded.request.logprobs = 5;
  EXPECT_EQ(request_to_replay(recorded)->logprobs, 5);
}

TEST(RequestToReplay, AnAbortedRequestRunsNoLongerThanItDid) {
  RecordedRequest recorded = two_choices();
  recorded.request.sampling.min_tokens = 20;
  for (RecordedChoice& choice : recorded.choices) choice.finish = FinishReason::kAborted;
  EXPECT_EQ(request_to_replay(recorded)->sampling.max_tokens, 3);
  EXPECT_EQ(request_to_replay(recorded)->sampling.min_tokens, 3);
  recorded.request.sampling.choices = {"yes", "no"};
  EXPECT_EQ(request_to_replay(recorded)->sampling.max_tokens, 50);
  recorded.request.sampling.choices.clear();
  recorded.choices[1].finish = FinishReason::kStop;
  EXPECT_EQ(request_to_replay(recorded)->sampling.max_tokens, 50);
  for (RecordedChoice& choice : recorded.choices) {
    choice = {};
    choice.finish = FinishReason::kAborted;
  }
  EXPECT_FALSE(request_to_replay(recorded));
}

}  // namespace
}  // namespace mortise
