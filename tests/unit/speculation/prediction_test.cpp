// A simulated choice: an answer that is known, and steps that verify what the prediction drafts for it.
#include "speculation/prediction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace mortise::test {
namespace {

using Ids = std::vector<std::int32_t>;

Ids random_ids(std::size_t count, std::uint32_t seed, std::int32_t vocab = 50'000) {
  std::mt19937 random(seed);
  Ids ids(count);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab));
  return ids;
}

struct Figures {
  int steps = 0;
  std::int32_t failed = 0;            // drafts that did not stand
  std::vector<std::int32_t> lengths;  // drafts of each step
  std::int32_t accepted = 0, rejected = 0;
};

// `room`: drafts that a plan grants at most.
Figures run(const Ids& answer, const Ids& predicted, bool resumed = false, std::size_t room = SIZE_MAX) {
  Prediction prediction(predicted, resumed);
  Figures result;
  std::size_t done = 0;
  while (done < answer.size()) {
    std::span<const std::int32_t> drafts = prediction.drafts();
    drafts = drafts.first(std::min({drafts.size(), answer.size() - done - 1, room}));
    std::size_t stood = 0;
    while (stood < drafts.size() && drafts[stood] == answer[done + stood]) ++stood;
    const auto num_drafts = static_cast<std::int32_t>(drafts.size());
    ++result.steps;
    result.lengths.push_back(num_drafts);
    result.failed += num_drafts - static_cast<std::int32_t>(stood);
    done += stood + 1;
    prediction.advance(std::span(answer).first(done), stood + 1);
  }
  result.accepted = prediction.num_accepted();
  result.rejected = prediction.num_rejected();
  return result;
}

TEST(Prediction, ARightOneTakesAFewGrowingSteps) {
  const Ids answer = random_ids(500, 1);
  const Figures right = run(answer, answer);
  EXPECT_EQ(right.lengths, (std::vector<std::int32_t>{16, 128, 353}));
  EXPECT_EQ(right.failed, 0);
  EXPECT_EQ(right.accepted, 500);
  EXPECT_EQ(right.rejected, 0);
}

TEST(Prediction, OneThatIsKnownToBeRightTakesOneStep) {
  const Ids answer = random_ids(500, 1);
  EXPECT_EQ(run(answer, answer, true).lengths, (std::vector<std::int32_t>{499}));
  // With at most 99 drafts in a step, it takes as many steps as that allows.
  EXPECT_EQ(run(answer, answer, true, 99).lengths, (std::vector<std::int32_t>{99, 99, 99, 99, 99}));
}

TEST(Prediction, WithoutRoomForDraftsItIsFollowedAllTheSame) {
  const Ids answer = random_ids(40, 1);
  const Figures none = run(answer, answer, false, 0);
  EXPECT_EQ(none.steps, 40);
  EXPECT_EQ(none.accepted, 40);  // 0: it was taken for lost, and no later step would have drafted
}

TEST(Prediction, AWrongOneCostsAFewRows) {
  const Ids answer = random_ids(500, 1);
  const Figures wrong = run(answer, random_ids(500, 2));
  EXPECT_EQ(wrong.steps, 500);
  EXPECT_EQ(wrong.failed, static_cast<std::int32_t>(Prediction::kFirst));
  EXPECT_EQ(wrong.accepted, 0);
  EXPECT_EQ(wrong.rejected, 500);
}

TEST(Prediction, AShortWrongOneCostsFewer) {
  const Figures wrong = run(random_ids(10, 1), random_ids(10, 2));
  EXPECT_EQ(wrong.failed, static_cast<std::int32_t>(Prediction::kMin));
}

// Of few different tokens, so that places are found all the time, and all of them wrong.
TEST(Prediction, OneThatKeepsFailingIsGivenUpButForAShareOfTheAnswer) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Ids answer = random_ids(1000, seed, 5);
    const Figures wrong = run(answer, random_ids(1000, seed + 100, 5));
    EXPECT_GT(wrong.failed, 50) << seed;  // less: nothing was found, and this test shows nothing
    // What it saved may be spent again; beyond that a share.
    EXPECT_LE(wrong.failed, 2.0 * Prediction::kFirst + Prediction::kShare * 1000 + 7 * (1000 - wrong.steps)) << seed;
  }
}

Ids with_edits(Ids answer, int every, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::size_t at = static_cast<std::size_t>(every); at < answer.size(); at += static_cast<std::size_t>(every)) {
    const auto place = answer.begin() + static_cast<std::ptrdiff_t>(at);
    if (random() % 3 == 0) {
      answer.erase(place);
    } else if (random() % 2 == 0) {
      answer.insert(place, {-1, -2, -3});
    } else {
      *place = -1;
    }
  }
  return answer;
}

TEST(Prediction, BehindAnEditItIsFoundAgain) {
  const Ids answer = random_ids(600, 3);
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const Figures edited = run(answer, with_edits(answer, 100, seed));
    // An edit costs its own tokens, two by which the place is found, and three steps of growing length.
    EXPECT_LE(edited.steps, 3 + 5 * 8) << seed;
    EXPECT_GE(edited.accepted, 570) << seed;
  }
}

TEST(Prediction, ItGoesOnBehindWhatItDidNotExpect) {
  Ids answer = random_ids(30, 4);
  const Ids predicted = random_ids(200, 5);
  answer.insert(answer.end(), predicted.begin(), predicted.end());  // "Here is your file:"
  const Figures shifted = run(answer, predicted);
  EXPECT_LE(shifted.steps, 30 + 2 + 4);
  EXPECT_GE(shifted.accepted, 195);
}

TEST(Prediction, LongerOrShorterThanTheAnswer) {
  const Ids text = random_ids(300, 6);
  const Ids half(text.begin(), text.begin() + 150);
  const Figures longer = run(half, text);
  EXPECT_LE(longer.steps, 3);
  EXPECT_EQ(longer.accepted, 150);
  EXPECT_EQ(longer.rejected, 150);
  const Figures shorter = run(text, half);
  EXPECT_EQ(shorter.accepted, 150);
  EXPECT_EQ(shorter.steps, 3 + 149);  // the third step brings one token of its own
}

TEST(Prediction, AnEmptyOneIsNone) {
  const Figures none = run(random_ids(20, 1), {}, true);
  EXPECT_EQ(none.steps, 20);
  EXPECT_EQ(none.accepted + none.rejected, 0);
}

TEST(Prediction, AResumedOneThatErrsIsAnOrdinaryOneFromThere) {
  const Ids answer = random_ids(400, 1);
  Ids predicted = answer;
  predicted[100] = -1;
  const Figures run_of_it = run(answer, predicted, true);
  EXPECT_EQ(run_of_it.lengths[0], 399);
  EXPECT_EQ(run_of_it.accepted, 397);  // all but the wrong one, and two by which the place was found
  EXPECT_LE(run_of_it.steps, 1 + 2 + 4);
}

// A plan may cut any step's drafts: what is counted stays, and what is drafted over all.
TEST(Prediction, TheCountsAreAFunctionOfTheTokensAlone) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Ids answer = random_ids(300, seed, 30);
    const Ids predicted = with_edits(answer, 20 + static_cast<int>(seed), seed);
    const Figures whole = run(answer, predicted);
    for (const std::size_t room : {0, 1, 7, 50}) {
      const Figures cut = run(answer, predicted, false, room);
      EXPECT_EQ(cut.accepted, whole.accepted) << seed << ", " << room;
      EXPECT_GE(cut.steps, whole.steps);
    }
  }
}

// Every token counts once, however often the same place is tried.
TEST(Prediction, TheCountsAddUpToItsLength) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const Ids predicted = random_ids(seed * 7 % 200, seed, 3);
    const Figures any = run(random_ids(150, seed + 1000, 3), predicted, seed % 2 == 0, seed % 3 == 0 ? 5 : SIZE_MAX);
    EXPECT_EQ(any.accepted + any.rejected, static_cast<std::int32_t>(predicted.size()));
    EXPECT_GE(any.accepted, 0);
    EXPECT_GE(any.rejected, 0);
  }
}

}  // namespace
}  // namespace mortise::test
