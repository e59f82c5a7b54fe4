// Requests go on while a swap makes its parts: StepUse::step_meanwhile.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "error.hpp"
#include "swap_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

using SwapMeanwhileTest = SwapFixture;

TEST_F(SwapMeanwhileTest, StepsRunBetweenTheCallsThatMakeAPart) {
  start_slow();
  FakeWorld next(small_limits());
  Collector first, second;
  begin(first);
  const SwapFigures figures = engine->swap([&](const StepUse& use) {
    engine->submit(greedy({9, 8, 7}, 2), second.sink());
    for (int call = 0; call < 8; ++call) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::int64_t before = world->num_forwards;
      use.step_meanwhile();
      EXPECT_EQ(world->num_forwards, before + 1);
    }
    return policies_of(next);
  });
  EXPECT_EQ(second.wait().at(0).ids(), expected({9, 8, 7}, 2));
  EXPECT_GE(figures.pause_s, 0.01);
  EXPECT_LT(figures.pause_s, 0.08);  // not the time of all calls
  EXPECT_EQ(figures.num_recomputed, 0u);
  expect_answer(first);
  engine.reset();  // before the parts that it runs
}

TEST_F(SwapMeanwhileTest, AnotherSwapWaitsForTheEndOfThisOne) {
  start_slow();
  FakeWorld next(small_limits()), last(small_limits());
  Collector collector;
  begin(collector);
  std::future<SwapFigures> other;
  const SwapFigures figures = engine->swap([&](const StepUse& use) {
    std::promise<void> asked;
    other = std::async(std::launch::async, [&] {
      asked.set_value();
      return engine->swap([&](const StepUse&) { return policies_of(last); });
    });
    asked.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    use.step_meanwhile();  // takes in the order, but does not carry it out
    return policies_of(next);
  });
  EXPECT_EQ(figures.generation, 1u);
  EXPECT_EQ(other.get().generation, 2u);
  expect_answer(collector);
  engine.reset();
}

TEST_F(SwapMeanwhileTest, NoStepRunsOnceSomethingIsTakenAway) {
  start_slow();
  Collector collector;
  begin(collector);
  for (const bool buffers : {false, true}) {
    EXPECT_THROW(engine->swap([&](const StepUse& use) -> Replacement {
      use.step_meanwhile();
      (buffers ? use.release_buffers : use.give_up_kv)();
      const std::int64_t before = world->num_forwards;
      use.step_meanwhile();
      EXPECT_EQ(world->num_forwards, before);
      throw Error("no memory");
    }),
                 Error);
  }
  expect_answer(collector);
}

TEST_F(SwapMeanwhileTest, APartThatFailsMeanwhileRefusesTheSwap) {
  start_slow();
  FakeWorld failing(small_limits()), next(small_limits());
  bool fails = false;
  failing.plan = [&](const mortise_schedule_view&, mortise_schedule_plan&) {
    if (fails) throw std::runtime_error("no more plans");
  };
  std::string why;
  Collector collector;
  begin(collector);
  engine->swap([&](const StepUse&) {
    Replacement replacement = policies_of(failing);
    replacement.fallbacks[PartKind::kScheduler] = {[&](const StepUse&) { return policies_of(*world); },
                                                   [&](const std::string& said, const SwapFigures&) { why = said; },
                                                   [](const std::string&, const std::string&) {}};
    return replacement;
  });
  bool is_taken = false;
  try {
    engine->swap([&](const StepUse& use) {
      fails = true;
      use.step_meanwhile();
      use.step_meanwhile();
      Replacement replacement = policies_of(next);
      replacement.taken = [&] { is_taken = true; };
      return replacement;
    });
    FAIL() << "the swap was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConflict);
    EXPECT_THAT(error.what(), HasSubstr("a part failed meanwhile"));
  }
  EXPECT_FALSE(is_taken);
  expect_answer(collector);
  EXPECT_THAT(why, HasSubstr("no more plans"));
  engine.reset();
}

TEST_F(SwapMeanwhileTest, AnEngineThatEndsMeanwhileEndsBehindTheSwap) {
  start_slow();
  FakeWorld next(small_limits());
  Collector collector;
  begin(collector);
  std::promise<void> begun, stopping;
  std::future<SwapFigures> swap = std::async(std::launch::async, [&] {
    return engine->swap([&](const StepUse& use) {
      begun.set_value();
      stopping.get_future().wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      use.step_meanwhile();
      return policies_of(next);
    });
  });
  begun.get_future().wait();
  stopping.set_value();
  engine.reset();
  EXPECT_EQ(swap.get().generation, 1u);
}

}  // namespace
}  // namespace mortise::test
