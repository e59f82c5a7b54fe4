// Adaptive lengths against a simulated machine. Nothing here waits or measures: what fails here fails everywhere.
#include "speculation/adaptive_lengths.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "simulated_machine.hpp"

namespace mortise::test {
namespace {

constexpr int kOutput = 64;  // tokens of a request
constexpr int kForever = 1'000'000;

// Steps of an 8B model on an H200 and of the demo model there, and of a 160M model on a CPU; with drafts that cost
// nothing, those of a small model, and those of a model that is too large.
const std::function<double(int, int)> kGpuSteps =
    measured_steps({{1, 5.1}, {6, 5.2}, {32, 5.7}, {192, 12.4}, {400, 21}});
const std::function<double(int, int)> kCpuSteps = measured_steps({{1, 0.42}, {6, 1.4}, {12, 2.58}});
const Machine kGpu = {"gpu", kGpuSteps, [](int asked, int) { return asked * 2e-6; }};
const Machine kGpuModel = {"gpu, model", kGpuSteps, [](int asked, int most) { return most * (4e-4 + 2e-6 * asked); },
                           2e-6};
const Machine kGpuDear = {"gpu, dear", kGpuSteps, [](int, int most) { return most * 2e-3; }, 1e-5};
const Machine kGpuTiny = {"gpu, tiny", measured_steps({{1, 0.3}, {6, 0.31}, {64, 0.4}, {400, 1.0}}),
                          [](int asked, int) { return asked * 2e-6; }};
const Machine kCpu = {"cpu", kCpuSteps, [](int asked, int) { return asked * 1e-6; }};
const Machine kCpuModel = {"cpu, model", kCpuSteps, [](int asked, int most) { return most * (4e-5 + 2e-5 * asked); },
                           1e-5};
const Machine kCpuDear = {"cpu, dear", kCpuSteps, [](int asked, int most) { return most * (3e-4 + 1e-4 * asked); },
                          5e-5};
// The 160M shape with drafts of the tiny one's cost, on two cores with AMX.
const Machine kAmxModel = {"amx, model",
                           measured_steps({{1, 10.6}, {4, 11.5}, {16, 14}, {64, 33}, {128, 45}, {384, 82}}),
                           [](int asked, int most) { return most * (9e-4 + 7e-5 * asked); }, 2e-5};

class AdaptiveLengthsOn : public ::testing::TestWithParam<const Machine*> {
 protected:
  // Over many seeds, since one percent is asked for: tokens a second of `count` batches of requests, after `warm_up` of
  // them.
  static double speed(Lengths lengths, const Text& text, int batch, int warm_up, int count) {
    double tokens = 0, seconds = 0;
    // Without drafts, luck changes nothing. A large batch has more requests a seed: as many in all as 16 times 16 give.
    const std::uint64_t last_seed = lengths == Lengths::kNone ? 1 : std::min(16, 256 / batch);
    for (std::uint64_t seed = 1; seed <= last_seed; ++seed) {
      Simulation simulation{*GetParam(), lengths, seed};
      simulation.stream(text, warm_up * batch, batch, kOutput);
      simulation.forget_score();
      simulation.stream(text, count * batch, batch, kOutput);
      tokens += simulation.tokens;
      seconds += simulation.seconds;
    }
    return tokens / seconds;
  }
  static void expect_no_less_than(double share, const Text& text, int batch, int warm_up, int count) {
    const double none = speed(Lengths::kNone, text, batch, warm_up, count),
                 fixed = speed(Lengths::kFixed, text, batch, warm_up, count),
                 adaptive = speed(Lengths::kAdaptive, text, batch, warm_up, count);
    EXPECT_GE(adaptive, share * std::max(none, fixed))
        << text.name << ", batch " << batch << ": adaptive over the better " << adaptive / std::max(none, fixed)
        << ", fixed over none " << fixed / none;
  }
};
INSTANTIATE_TEST_SUITE_P(Machines, AdaptiveLengthsOn,
                         ::testing::Values(&kGpu, &kGpuModel, &kGpuDear, &kGpuTiny, &kCpu, &kCpuModel, &kCpuDear,
                                           &kAmxModel),
                         [](const auto& info) {
                           std::string name = info.param->name;
                           std::erase_if(name, [](char c) { return c == ' ' || c == ','; });
                           return name;
                         });

TEST_P(AdaptiveLengthsOn, AreNeverMuchBelowTheBetterOfFixedAndNone) {
  for (const int batch : {1, 4, 16, 32, 64}) {
    for (const Text& text : {steady(0), steady(0.5), steady(0.8), steady(0.93), steady(0.95), quoted()}) {
      expect_no_less_than(0.98, text, batch, /*warm_up=*/10, /*count=*/20);
    }
    // Where each request has to be found out again, that is not free.
    for (const Text& text : {changing(), mixed()}) {
      expect_no_less_than(0.965, text, batch, /*warm_up=*/10, /*count=*/20);
    }
  }
}

// A proposer that begins with a request must catch up with its prompt. The answer must be long enough to pay for that.
TEST(AdaptiveLengths, CatchUpWithPromptsWhereAnswersPayForIt) {
  for (const double catch_up_s : {0.0, 2e-5, 1e-4}) {
    Machine machine = kAmxModel;
    machine.catch_up_s = catch_up_s;
    const auto speed = [&](Lengths lengths, double rate, int prompt, int batch, int output) {
      double tokens = 0, seconds = 0;
      for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        Simulation simulation{machine, lengths, seed};
        for (int turn = 0; turn < 10; ++turn) {
          if (turn == 2) simulation.forget_score();
          simulation.add(batch, output, prompt);
          while (!simulation.running.empty()) simulation.step(steady(rate));
        }
        tokens += simulation.tokens;
        seconds += simulation.seconds;
      }
      return tokens / seconds;
    };
    for (const double rate : {0.5, 0.8, 0.95}) {
      for (const int prompt : {128, 1000}) {
        for (const int batch : {4, 64}) {
          for (const int output : {40, 64, 256}) {
            const auto speed_of = [&](Lengths lengths) { return speed(lengths, rate, prompt, batch, output); };
            const double none = speed_of(Lengths::kNone), fixed = speed_of(Lengths::kFixed);
            EXPECT_GE(speed_of(Lengths::kAdaptive), 0.96 * std::max(none, fixed))
                << catch_up_s << " s a token, rate " << rate << ", " << batch << " prompts of " << prompt
                << ", answers of " << output << ": fixed over none " << fixed / none;
          }
        }
      }
    }
  }
}

// Nothing is known yet of the machine and of the proposer, which may cost ten times what it brings.
TEST_P(AdaptiveLengthsOn, FindOutWithinTheFirstRequestsOfAnEngine) {
  for (const int batch : {1, 4, 16, 32, 64}) {
    for (const Text& text :
         {steady(0), steady(0.5), steady(0.8), steady(0.93), steady(0.95), quoted(), changing(), mixed()}) {
      expect_no_less_than(0.7, text, batch, /*warm_up=*/0, /*count=*/3);
    }
  }
}

// Not where a proposer is so dear, and has so much to catch up with after long silence, that half a percent of the time
// does not pay for the way back (kGpuDear): there it stays with what is known.
TEST(AdaptiveLengths, FollowARateThatChanges) {
  for (const Machine* machine : {&kGpu, &kGpuModel, &kGpuTiny, &kCpu, &kCpuModel, &kCpuDear}) {
    for (const double second : {0.0, 0.95}) {
      Simulation none{*machine, Lengths::kNone}, fixed{*machine, Lengths::kFixed}, adaptive{*machine};
      for (Simulation* simulation : {&none, &fixed, &adaptive}) {
        simulation->add(4, kForever);
        simulation->steps(steady(0.95 - second), 1000);
        simulation->forget_score();
        simulation->steps(steady(second), 2000);  // the way there included
      }
      EXPECT_GE(adaptive.speed(), 0.95 * std::max(none.speed(), fixed.speed())) << machine->name << ", to " << second;
    }
  }
}

TEST(AdaptiveLengths, GiveEachSequenceOfABatchItsOwn) {
  const Text text = {"every other", [](auto request, int, int) { return request % 2 == 0 ? 0.95 : 0.0; }};
  for (const Machine* machine : {&kGpu, &kGpuModel, &kGpuTiny, &kCpu}) {  // those on which drafting pays for the others
    Simulation simulation{*machine};
    simulation.add(8, kForever);
    simulation.steps(text, 200);
    simulation.forget_score();
    simulation.steps(text, 2000);
    for (std::size_t bad = 1; bad < 8; bad += 2) {
      EXPECT_LT(simulation.running[bad].sum_lengths, 2000 * 0.5 + simulation.running[0].sum_lengths / 4)
          << machine->name << ", " << bad;
    }
  }
}

TEST(AdaptiveLengths, AskForNothingWhereNothingStandsButForProbes) {
  Simulation simulation{kGpuDear};
  simulation.add(2, kForever);
  simulation.steps(steady(0), 500);
  simulation.forget_score();
  simulation.steps(steady(0), 5000);
  // A probe costs 0.4 steps and what the proposer has to catch up with, and may take half a percent of the time.
  EXPECT_GT(simulation.num_without, 4900);
  EXPECT_LT(simulation.num_without, 4995);  // 5000: a text that changes would never be noticed
}

TEST(AdaptiveLengths, UseAllWhereEverythingStandsAndRowsAreCheap) {
  Simulation simulation{kGpu};
  simulation.add(1, kForever);
  simulation.steps(steady(0.99), 10);
  simulation.forget_score();
  simulation.steps(steady(0.99), 500);
  EXPECT_GT(simulation.running[0].sum_lengths / 500, 4.9);
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
  Simulation simulation{kGpuDear};
  simulation.stream(steady(0), 20, 2, kOutput);
  simulation.running.clear();
  simulation.forget_score();
  simulation.add(2, kOutput);
  simulation.steps(steady(0), 20);
  EXPECT_GE(simulation.num_without, 19u);
}

// A model drafts for some, at a price; others are drafted for by looking a text up, which costs nothing.
TEST(AdaptiveLengths, WhatDraftingCostsIsToldApartByKind) {
  AdaptiveLengths policy;
  const auto run = [&](std::uint32_t kind, int steps, double draft_s, int num_standing) {
    DraftState state;
    state.kind = kind;
    int sum = 0;
    for (int step = 0; step < steps; ++step) {
      const std::vector<AdaptiveLengths::Candidate> candidates = {{&state, 10}};
      policy.choose(candidates);
      sum += state.length;
      policy.verified(state, state.length, state.length, std::min(state.length, num_standing));
      policy.measured({1, 1 + state.length, state.length > 0 ? 1 : 0, state.length, state.length * draft_s,
                       3e-4 + 1e-6 * state.length});
    }
    return static_cast<double>(sum) / steps;
  };
  EXPECT_LT(run(1, 300, 1e-4, 3), 4.5);
  EXPECT_GT(run(2, 30, 1e-7, 10), 9);
  EXPECT_LT(run(1, 30, 1e-4, 3), 4.5);
}

// Now and then one of many sequences catches up with a single token. The time of that call says nothing about the time
// of a token.
TEST(AdaptiveLengths, NewPromptsAreNotTakenToBeDear) {
  AdaptiveLengths policy;
  const auto run = [&](std::vector<DraftState>& states, int steps) {
    int sum = 0;
    for (int step = 0; step < steps; ++step) {
      std::vector<AdaptiveLengths::Candidate> candidates;
      for (DraftState& state : states) candidates.push_back({&state, 5});
      candidates[0].limit = step % 2 == 0 ? 5 : 0;
      policy.choose(candidates);
      AdaptiveLengths::StepTimes times{64, 64, 0, 0, 0, 0};
      int catch_up = 0;
      for (DraftState& state : states) {
        sum += state.length;
        times.num_rows += state.length;
        times.num_drafting += state.length > 0 ? 1 : 0;
        times.max_drafts = std::max(times.max_drafts, state.length);
        catch_up += state.length > 0 ? state.num_unseen : 0;
        policy.verified(state, state.length, state.length, state.length);
      }
      times.rest_s = kAmxModel.step_s(64, times.num_rows);
      const double noise = step % 4 == 0 ? 1.2 : 0.95;  // most of all where a token is caught up with
      times.draft_s = noise * kAmxModel.draft_s(times.num_drafting, times.max_drafts) + 2e-5 * catch_up;
      policy.measured(times);
    }
    return sum;
  };
  std::vector<DraftState> first(64), second(64);
  for (DraftState& state : first) state.num_unseen = 17;
  for (DraftState& state : second) state.num_unseen = 17;
  run(first, 100);
  EXPECT_GT(run(second, 1), 0);
}

// The first two steps of each size are captured as graphs: they take long, and nobody is told how long.
TEST(AdaptiveLengths, AProbeThatWasNotMeasuredComesAgain) {
  AdaptiveLengths policy;
  std::map<int, int> uses;
  DraftState state;
  int sum = 0;
  for (int step = 0; step < 400; ++step) {
    const std::vector<AdaptiveLengths::Candidate> candidates = {{&state, 10}};
    policy.choose(candidates);
    if (step >= 300) sum += state.length;
    policy.verified(state, state.length, state.length, state.length);
    // A size is measured from its third use on. A step with drafts costs the same whatever their number, and much more
    // than one without, so that the first guess is wrong.
    if (++uses[state.length] > 2) {
      policy.measured(
          {1, 1 + state.length, state.length > 0 ? 1 : 0, state.length, 0, state.length == 0 ? 3e-4 : 5e-4});
    }
  }
  EXPECT_GT(sum / 100.0, 9);
}

// A device that does something once for each new size of step: a quarter of a second, where a step takes 5 ms.
TEST(AdaptiveLengths, ForgetWhatTheFirstStepOfAShapeTook) {
  Simulation simulation{kGpu};
  std::vector<bool> met(1000, false);
  Machine machine = kGpu;
  machine.step_s = [&](int seqs, int rows) {
    const bool first = !met[static_cast<std::size_t>(rows)];
    met[static_cast<std::size_t>(rows)] = true;
    return kGpu.step_s(seqs, rows) + (first ? 0.25 : 0);
  };
  Simulation slow_starts{machine};
  slow_starts.stream(steady(0.93), 20 * 4, 4, kOutput);
  simulation.stream(steady(0.93), 20 * 4, 4, kOutput);
  for (Simulation* one : {&slow_starts, &simulation}) {
    one->forget_score();
    one->stream(steady(0.93), 10 * 4, 4, kOutput);
  }
  EXPECT_GT(slow_starts.speed(), 0.98 * simulation.speed());
}

}  // namespace
}  // namespace mortise::test
