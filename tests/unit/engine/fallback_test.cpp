// What served before comes back when the part that took its place fails: between two steps, with the same tokens.
#include <gmock/gmock.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "swap_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;
class FallbackTest : public SwapFixture {
 protected:
  // The parts of `next` of that kind take the place of those of `world`, which are the way back.
  void swap_in(FakeWorld& next, PartKind kind) {
    engine->swap([&, kind](const StepUse&) {
      Replacement replacement = with_parts_of(next, kind);
      replacement.fallbacks[kind] = {
          [this, kind](const StepUse&) { return with_parts_of(*world, kind); },
          [this](const std::string& said, const SwapFigures& made) { why = said, figures = made; },
          [this](const std::string& said, const std::string& error) { why = said, refusal = error; }};
      return replacement;
    });
  }
  Replacement with_parts_of(FakeWorld& next, PartKind kind) {
    if (kind != PartKind::kModel) return policies_of(next);
    Parts parts = world->parts();
    static_cast<ShardParts&>(parts) = next.parts();
    return {parts, world->limits, false};
  }
  void run_and_expect_the_same_tokens() {
    Collector first, second;
    engine->submit(greedy(kPrompt, kLength), first.sink());
    engine->submit(greedy({9, 8, 7}, kLength), second.sink());
    first.wait_for_tokens(3);
    if (meanwhile) meanwhile();
    EXPECT_EQ(first.wait().at(0).ids(), expected(kPrompt, kLength));
    EXPECT_EQ(second.wait().at(0).ids(), expected({9, 8, 7}, kLength));
  }

  std::function<void()> meanwhile;
  // Written by the engine's thread before the requests end.
  std::string why, refusal;
  SwapFigures figures;
};

TEST_F(FallbackTest, FromASchedulerThatThrows) {
  start_slow();
  FakeWorld next(small_limits());
  int num_plans = 0;
  next.plan = [&](const mortise_schedule_view&, mortise_schedule_plan&) {
    if (++num_plans > 5) throw std::runtime_error("no more plans");
  };
  meanwhile = [&] { swap_in(next, PartKind::kScheduler); };
  run_and_expect_the_same_tokens();
  const std::size_t num_events = world->events.size();
  EXPECT_THAT(why, HasSubstr("no more plans"));
  EXPECT_EQ(figures.generation, 2u);
  EXPECT_EQ(figures.num_recomputed, 0u);
  EXPECT_EQ(num_plans, 6);
  EXPECT_GT(num_events, 2u);  // it was told anew of those that live
}

TEST_F(FallbackTest, FromASchedulerWhosePlansCannotBeUsed) {
  start_slow();
  FakeWorld next(small_limits());
  int num_plans = 0;
  next.plan = [&](const mortise_schedule_view&, mortise_schedule_plan& plan) {
    ++num_plans;
    plan.num_scheduled = 1;
    plan.seqs[0] = 1000;
  };
  meanwhile = [&] { swap_in(next, PartKind::kScheduler); };
  run_and_expect_the_same_tokens();
  EXPECT_EQ(num_plans, static_cast<int>(Planner::kMaxBreaches));
  EXPECT_THAT(why, HasSubstr("10 plans could not be used, the last one because of: "));
  EXPECT_THAT(why, HasSubstr("seqs[0] = 1000 is out of range"));
}

TEST_F(FallbackTest, FromAProposerWhoseDraftsAreNone) {
  EngineLimits limits = small_limits();
  limits.max_drafts = 2;
  world = std::make_unique<FakeWorld>(limits);
  world->propose = [](std::uint64_t, std::int32_t) { return Tokens{7}; };
  world->before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  start(limits);
  FakeWorld next(limits);
  next.propose = [](std::uint64_t, std::int32_t) { return Tokens{-1}; };
  meanwhile = [&] { swap_in(next, PartKind::kProposer); };
  run_and_expect_the_same_tokens();
  EXPECT_THAT(why, HasSubstr("has failed 10 times, the last time in propose: token id -1"));
  EXPECT_TRUE(refusal.empty());
}

TEST_F(FallbackTest, FromAModelThatThrowsNoRequestIsLost) {
  start_slow();
  FakeWorld next(small_limits());
  next.before_forward = [&](std::int64_t count) {
    if (count > 4) throw std::runtime_error("the model is tired");
  };
  meanwhile = [&] { swap_in(next, PartKind::kModel); };
  run_and_expect_the_same_tokens();
  EXPECT_THAT(why, HasSubstr("the model is tired"));
  EXPECT_EQ(figures.num_recomputed, 2u);
  EXPECT_EQ(engine->health().state, EngineHealth::State::kOk);
}

TEST_F(FallbackTest, FromAModelThatRefusesAStepNoRequestIsLost) {
  start_slow();
  FakeWorld next(small_limits());
  next.forward_status = [](std::int64_t count) { return count > 4 ? MORTISE_UNAVAILABLE : MORTISE_OK; };
  meanwhile = [&] { swap_in(next, PartKind::kModel); };
  run_and_expect_the_same_tokens();
  EXPECT_THAT(why, HasSubstr("(UNAVAILABLE)"));
}

TEST_F(FallbackTest, WhenNothingCanComeBackTheEngineGoesOnAsWithout) {
  start_slow();
  FakeWorld next(small_limits());
  next.plan = [](const mortise_schedule_view&, mortise_schedule_plan&) { throw std::runtime_error("no plans"); };
  meanwhile = [&] {
    engine->swap([&](const StepUse&) {
      Replacement replacement = with_parts_of(next, PartKind::kScheduler);
      replacement.fallbacks[PartKind::kScheduler] = {
          [](const StepUse&) -> Replacement { throw std::runtime_error("it is gone"); },
          [](const std::string&, const SwapFigures&) { FAIL(); },
          [this](const std::string& said, const std::string& error) { why = said, refusal = error; }};
      return replacement;
    });
  };
  run_and_expect_the_same_tokens();
  EXPECT_THAT(why, HasSubstr("no plans"));
  EXPECT_EQ(refusal, "it is gone");
}

}  // namespace
}  // namespace mortise::test
