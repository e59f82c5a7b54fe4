// Adaptive lengths against a simulated machine: its clock, its sequences and their luck. Nothing here waits or
// measures.
#include "speculation/adaptive_lengths.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace mortise {
namespace {

// A machine: what a step of so many sequences and rows takes, and what it takes to draft.
struct Machine {
  const char* name;
  std::function<double(int seqs, int rows)> step_s;
  std::function<double(int asked, int most)> draft_s;
  double catch_up_s = 0;  // a token that a sequence was not asked after
};

// Rows are nearly free up to 64 of them, as where the weights' memory traffic is what a step costs.
const Machine kGpu = {"gpu", [](int, int rows) { return 5e-3 + 2e-5 * rows + 1e-4 * std::max(0, rows - 64); },
                      [](int, int most) { return most * 4e-4; }, 1e-6};
// Every row is work: half of a step's time at one row.
const Machine kCpu = {"cpu", [](int, int rows) { return 1e-3 + 1e-3 * rows; },
                      [](int asked, int most) { return most * (2e-4 + 1e-4 * asked); }, 1e-5};
const Machine kDearDrafts = {"dear drafts", [](int, int rows) { return 5e-3 + 1e-4 * rows; },
                             [](int, int most) { return most * 4e-3; }, 2e-5};
const Machine kFreeDrafts = {"free drafts", [](int, int rows) { return 2e-3 + 3e-4 * rows; },
                             [](int, int) { return 1e-6; }};

enum class Lengths { kNone, kFixed, kAdaptive };
constexpr int kMaxDrafts = 5;

struct Simulated {
  const Machine& machine;
  Lengths lengths;
  std::vector<double> rates;  // of each sequence
  double noise = 0.05;        // of times
  std::mt19937 random{17};
  AdaptiveLengths policy{};
  std::vector<DraftState> states = std::vector<DraftState>(rates.size());
  double seconds = 0, tokens = 0;
  int most_length = 0, num_without = 0;
  std::vector<double> mean_length = std::vector<double>(rates.size());

  bool chance(double p) { return std::uniform_real_distribution<>()(random) < p; }
  double jitter() { return 1 + noise * std::uniform_real_distribution<>(-1, 1)(random); }

  void step() {
    std::vector<AdaptiveLengths::Candidate> candidates;
    for (DraftState& state : states) candidates.push_back({&state, kMaxDrafts});
    if (lengths == Lengths::kAdaptive) policy.choose(candidates);
    AdaptiveLengths::StepTimes times;
    times.num_seqs = times.num_rows = static_cast<int>(rates.size());
    double catch_up = 0;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      if (lengths != Lengths::kAdaptive) states[i].length = lengths == Lengths::kFixed ? kMaxDrafts : 0;
      const int length = states[i].length;
      times.num_rows += length;
      times.most_asked = std::max(times.most_asked, length);
      if (length > 0) ++times.num_asked;
      if (length > 0) catch_up += machine.catch_up_s * states[i].num_unseen;
      int accepted = 0;
      while (accepted < length && chance(rates[i])) ++accepted;
      tokens += 1 + accepted;
      mean_length[i] += length;
      most_length = std::max(most_length, length);
      policy.verified(states[i], length, length, accepted);
    }
    num_without += times.num_asked == 0 ? 1 : 0;
    times.rest_s = machine.step_s(times.num_seqs, times.num_rows) * jitter();
    if (times.num_asked > 0) times.draft_s = machine.draft_s(times.num_asked, times.most_asked) * jitter() + catch_up;
    seconds += times.rest_s + times.draft_s;
    if (lengths == Lengths::kAdaptive) policy.measured(times);
  }
  void run(int num_steps) {
    seconds = tokens = 0;
    num_without = 0;
    std::ranges::fill(mean_length, 0);
    for (int i = 0; i < num_steps; ++i) step();
    for (double& length : mean_length) length /= num_steps;
  }
  double speed() const { return tokens / seconds; }
};

double speed(const Machine& machine, Lengths lengths, std::vector<double> rates) {
  Simulated simulated{machine, lengths, std::move(rates)};
  simulated.run(200);  // what is measured first, and the first guesses
  simulated.run(4000);
  return simulated.speed();
}

class AdaptiveLengthsOn : public ::testing::TestWithParam<const Machine*> {};
INSTANTIATE_TEST_SUITE_P(Machines, AdaptiveLengthsOn, ::testing::Values(&kGpu, &kCpu, &kDearDrafts, &kFreeDrafts),
                         [](const auto& info) {
                           std::string name = info.param->name;
                           std::erase(name, ' ');
                           return name;
                         });

TEST_P(AdaptiveLengthsOn, AreNeverMuchBelowTheBetterOfFixedAndNone) {
  for (const double rate : {0.0, 0.5, 0.8, 0.95}) {
    for (const std::size_t batch : {1, 4, 16, 64}) {
      const std::vector<double> rates(batch, rate);
      const double none = speed(*GetParam(), Lengths::kNone, rates), fixed = speed(*GetParam(), Lengths::kFixed, rates),
                   adaptive = speed(*GetParam(), Lengths::kAdaptive, rates);
      EXPECT_GE(adaptive, 0.98 * std::max(none, fixed))
          << "rate " << rate << ", batch " << batch << ": none " << none << ", fixed " << fixed << " tokens/s";
    }
  }
}

TEST_P(AdaptiveLengthsOn, GiveEachSequenceOfABatchItsOwn) {
  std::vector<double> rates(8, 0.0);
  for (std::size_t i = 0; i < 4; ++i) rates[i] = 0.95;
  Simulated mixed{*GetParam(), Lengths::kAdaptive, rates};
  mixed.run(200);
  mixed.run(2000);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_LT(mixed.mean_length[i], 0.5 + mixed.mean_length[0] / 4) << i;
  EXPECT_GE(mixed.speed(),
            0.98 * std::max(speed(*GetParam(), Lengths::kNone, rates), speed(*GetParam(), Lengths::kFixed, rates)));
}

TEST_P(AdaptiveLengthsOn, FollowARateThatChanges) {
  for (const double second : {0.0, 0.95}) {
    Simulated simulated{*GetParam(), Lengths::kAdaptive, std::vector<double>(4, second > 0 ? 0.0 : 0.95)};
    simulated.run(1000);
    simulated.rates.assign(4, second);
    simulated.run(2000);  // the way there included
    const std::vector<double> rates(4, second);
    const double best = std::max(speed(*GetParam(), Lengths::kNone, rates), speed(*GetParam(), Lengths::kFixed, rates));
    EXPECT_GE(simulated.speed(), 0.9 * best) << "to " << second;
    simulated.run(2000);
    EXPECT_GE(simulated.speed(), 0.93 * best) << "to " << second;  // where little is to be had, it takes long
  }
}

TEST(AdaptiveLengths, AskForNothingWhereNothingStandsButForProbes) {
  Simulated simulated{kDearDrafts, Lengths::kAdaptive, {0.0, 0.0}};
  simulated.run(200);
  simulated.run(2000);
  // A probe makes a step about 1.8 times as long, so that one comes every 80 steps.
  EXPECT_GT(simulated.num_without, 1940);
  EXPECT_LT(simulated.num_without, 1995);
}

TEST(AdaptiveLengths, UseAllWhereEverythingStandsAndRowsAreCheap) {
  Simulated simulated{kGpu, Lengths::kAdaptive, {0.99}};
  simulated.run(100);
  simulated.run(500);
  EXPECT_GT(simulated.mean_length[0], 0.95 * kMaxDrafts);
}

TEST(AdaptiveLengths, RespectTheLimitOfEachSequence) {
  AdaptiveLengths policy;
  std::vector<DraftState> states(3);
  for (int step = 0; step < 200; ++step) {
    const std::vector<AdaptiveLengths::Candidate> candidates = {{&states[0], 0}, {&states[1], 2}, {&states[2], 5}};
    policy.choose(candidates);
    ASSERT_EQ(states[0].length, 0);
    ASSERT_LE(states[1].length, 2);
    ASSERT_LE(states[2].length, 5);
    for (DraftState& state : states) policy.verified(state, state.length, state.length, state.length);
    policy.measured({3, 3 + states[1].length + states[2].length, 2, 5, 1e-4, 1e-3});
  }
  EXPECT_EQ(states[2].length, 5);
}

TEST(AdaptiveLengths, AProposerThatRarelyHasADraftIsAskedAllTheTimeIfAskingIsFree) {
  AdaptiveLengths policy;
  DraftState state;
  int asked = 0;
  for (int step = 0; step < 1000; ++step) {
    const std::vector<AdaptiveLengths::Candidate> candidates = {{&state, 5}};
    policy.choose(candidates);
    asked += state.length > 0 ? 1 : 0;
    policy.verified(state, state.length, 0, 0);
    policy.measured({1, 1, state.length > 0 ? 1 : 0, state.length, state.length > 0 ? 1e-6 : 0, 1e-3});
  }
  EXPECT_GT(asked, 900);
}

TEST(AdaptiveLengths, NewSequencesBeginWithWhatOthersOfTheirKindHad) {
  Simulated simulated{kDearDrafts, Lengths::kAdaptive, {0.0, 0.0}};
  simulated.run(500);
  simulated.states.assign(2, DraftState{});
  simulated.run(20);
  EXPECT_GT(simulated.num_without, 17);
}

}  // namespace
}  // namespace mortise
