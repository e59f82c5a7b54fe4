// Parts are replaced while requests run: tokens stay the same, new parts are told what they must know, and a swap that
// fails changes nothing.
// Covers: runtime/engine/{gap_watch,setup}
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

#include "error.hpp"
#include "swap_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SwapTest : public SwapFixture {
 protected:
  // Puts in all parts of `next`, which the engine then runs with that world's limits.
  SwapFigures swap_to(FakeWorld& next, bool same_kv = false) {
    return engine->swap([&, same_kv](const StepUse&) { return Replacement{next.parts(), next.limits, same_kv}; });
  }
  // The same, but device, model and attention stay.
  SwapFigures swap_policies(FakeWorld& next) {
    return engine->swap([&](const StepUse&) { return policies_of(next); });
  }
};

TEST_F(SwapTest, ASchedulerIsFirstToldOfAllSequencesThatLive) {
  start_slow();
  FakeWorld next(small_limits());
  std::size_t num_events_at_first_plan = 0;
  next.plan = [&](const mortise_schedule_view&, mortise_schedule_plan&) {
    if (num_events_at_first_plan == 0) num_events_at_first_plan = next.events.size();
  };
  Collector first, second;
  begin(first);
  begin(second);
  const SwapFigures figures = swap_policies(next);
  EXPECT_EQ(figures.generation, 1u);
  EXPECT_EQ(figures.num_recomputed, 0u);
  EXPECT_GT(figures.pause_s, 0);
  EXPECT_GT(figures.largest_gap_s, figures.pause_s);  // it holds the pause, and a step
  expect_answer(first);
  expect_answer(second);
  Collector third;  // with whose plan the ends of the others are told
  begin(third);
  engine.reset();
  EXPECT_EQ(num_events_at_first_plan, 2u);
  ASSERT_GE(next.events.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const FakeWorld::Event& event = next.events[i];
    EXPECT_EQ(event.kind, MORTISE_EVENT_ADDED);
    EXPECT_EQ(event.seq_id, i + 1);
    ASSERT_GT(event.tokens.size(), kPrompt.size());
    EXPECT_TRUE(std::equal(kPrompt.begin(), kPrompt.end(), event.tokens.begin()));
    EXPECT_EQ(event.tokens.size() + static_cast<std::size_t>(event.max_new_tokens), kPrompt.size() + kLength);
  }
  EXPECT_EQ(next.scheduler_alive, std::set<std::uint64_t>{3});  // told of the ends, too
}

TEST_F(SwapTest, TheLargestGapHoldsTheFirstStepOfTheNewParts) {
  start_slow();
  FakeWorld next(small_limits());
  next.before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  Collector collector;
  begin(collector);
  EXPECT_GE(swap_to(next).largest_gap_s, 0.06);
  expect_answer(collector);
  engine.reset();  // before the parts that it runs
}

TEST_F(SwapTest, ASwapThatWaitsForAStreamIsOverWhenTheNextOneComes) {
  start_slow();
  EngineLimits narrow = small_limits();
  narrow.max_num_seqs = 1;
  FakeWorld next(narrow), wide(small_limits());
  next.before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  Collector collectors[2];
  for (Collector& collector : collectors) begin(collector);
  std::future<SwapFigures> first = std::async(std::launch::async, [&] { return swap_to(next); });
  while (engine->stats().num_waiting == 0)
    std::this_thread::yield();  // until the swap has left room for one of the two
  EXPECT_EQ(swap_to(wide).generation, 2u);
  const SwapFigures of_first = first.get();
  EXPECT_EQ(of_first.generation, 1u);
  EXPECT_GT(of_first.largest_gap_s, 0);
  for (Collector& collector : collectors) expect_answer(collector);
  engine.reset();
}

TEST_F(SwapTest, AProposerIsToldTheWholeHistoryAndDraftsFromTheNextStepOn) {
  EngineLimits limits = small_limits();
  limits.max_drafts = 2;
  start_slow(limits);
  FakeWorld next(limits);
  std::atomic<int> num_asked = 0;
  next.propose = [&](std::uint64_t, std::int32_t) {
    ++num_asked;
    return Tokens{7};
  };
  Collector collector;
  begin(collector);
  swap_policies(next);
  expect_answer(collector);
  const EngineStats stats = engine->stats();
  engine.reset();
  EXPECT_GT(num_asked, 0);
  Tokens history = kPrompt;
  for (const std::int32_t token : expected(kPrompt, kLength)) history.push_back(token);
  EXPECT_EQ(next.observed.at(1), history);
  EXPECT_GT(stats.num_drafts, 0u);
}

TEST_F(SwapTest, ARequestWhoseProposerWentGoesOnWithoutDraftsAndTheFiguresStay) {
  EngineLimits limits = small_limits();
  limits.max_drafts = 2;
  world = std::make_unique<FakeWorld>(limits);
  world->propose = [](std::uint64_t, std::int32_t) { return Tokens{7}; };
  world->before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  start(limits);
  FakeWorld next(limits);  // without a proposer
  Collector collector;
  begin(collector, kLength, "fake");
  swap_policies(next);
  const std::uint64_t num_drafts = engine->stats().num_drafts;
  EXPECT_GT(num_drafts, 0u);
  expect_answer(collector);
  EXPECT_EQ(engine->stats().num_drafts, num_drafts);
  ASSERT_EQ(engine->stats().speculation.proposers.size(), 1u);  // of what was: counters do not go back
  EXPECT_EQ(engine->stats().speculation.proposers[0].num_drafts, num_drafts);
  Request named = greedy(kPrompt, 2);
  named.speculation.proposer = "fake";
  EXPECT_THROW(engine->check(named), Error);  // who comes now is told
}

TEST_F(SwapTest, AnAttentionThatReadsTheSameKvGoesOnWithIt) {
  start_slow();
  FakeWorld next(small_limits());
  Collector collector;
  begin(collector);
  const SwapFigures figures = engine->swap([&](const StepUse&) {
    next.kv = world->kv;
    Parts parts = next.parts();
    static_cast<Policies&>(parts) = world->parts();
    return Replacement{parts, world->limits, true};
  });
  EXPECT_EQ(figures.num_recomputed, 0u);
  expect_answer(collector);
  EXPECT_EQ(engine->stats().num_preemptions, 0u);
  engine.reset();
  EXPECT_GT(next.num_forwards, 0);
}

TEST_F(SwapTest, OtherBlocksAndSizesComputeRunningSequencesAnewAndTheirTokensStay) {
  start_slow();
  EngineLimits limits = small_limits();
  limits.block_size = 8;
  limits.num_blocks = 15;
  limits.max_batched_tokens = 9;
  limits.max_num_seqs = 2;
  FakeWorld next(limits);
  Collector first, second;
  begin(first);
  begin(second);
  const SwapFigures figures = swap_to(next);
  EXPECT_EQ(figures.num_recomputed, 2u);
  expect_answer(first);
  expect_answer(second);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.num_preemptions, 2u);
  EXPECT_EQ(stats.num_blocks, 15);
  EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, stats.num_blocks);
  const std::int64_t before = world->num_forwards;
  Collector third;
  begin(third);
  expect_answer(third);
  engine.reset();                          // before the world that it runs
  EXPECT_EQ(world->num_forwards, before);  // the old parts are not called any more
}

TEST_F(SwapTest, FewerPlacesThanRunTakeTheLatestSequencesOut) {
  start_slow();
  EngineLimits limits = small_limits();
  limits.max_num_seqs = 1;
  FakeWorld next(limits);
  std::int64_t most_running = 0;
  next.plan = [&](const mortise_schedule_view& view, mortise_schedule_plan&) {
    most_running = std::max(most_running, std::count(view.states, view.states + view.num_seqs, MORTISE_SEQ_RUNNING));
  };
  Collector first, second;
  begin(first);
  begin(second);
  const SwapFigures figures = engine->swap([&](const StepUse&) {
    Parts parts = world->parts();
    parts.scheduler = next.parts().scheduler;
    return Replacement{parts, limits, true};
  });
  EXPECT_EQ(figures.num_recomputed, 1u);
  expect_answer(first);
  expect_answer(second);
  engine.reset();
  EXPECT_EQ(most_running, 1);  // 2: no plan could be right
}

TEST_F(SwapTest, ALiveRequestThatWouldNotFitRefusesTheSwap) {
  start_slow();
  EngineLimits limits = small_limits();
  limits.num_blocks = 5;  // of 4 tokens: the request needs 12
  FakeWorld next(limits);
  Collector collector;
  begin(collector);
  try {
    swap_to(next);
    FAIL() << "the swap was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConflict);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("request 1"), HasSubstr("12 KV blocks of 4 tokens"), HasSubstr("holds 5")));
  }
  expect_answer(collector);
  EXPECT_EQ(next.num_forwards, 0);
  swap_to(next);                                                                    // no request is live any more
  EXPECT_THROW(engine->submit(greedy(kPrompt, kLength), collector.sink()), Error);  // the new terms hold at once
  EXPECT_NO_THROW(engine->check(greedy(kPrompt, 10)));
  engine.reset();  // before the world that it runs
}

TEST_F(SwapTest, WhatCannotBeMadeChangesNothing) {
  start_slow();
  Collector collector;
  begin(collector);
  EXPECT_THROW(engine->swap([](const StepUse&) -> Replacement { throw Error("no such part"); }), Error);
  // The same after the loss of all that can be lost before: it is computed anew.
  EXPECT_THROW(engine->swap([&](const StepUse& use) -> Replacement {
    use.give_up_kv();
    std::fill(world->kv.begin(), world->kv.end(), -1);
    use.release_buffers();
    throw std::runtime_error("no memory");
  }),
               std::runtime_error);
  expect_answer(collector);
  EXPECT_EQ(engine->stats().num_preemptions, 1u);
  EXPECT_EQ(engine->health().state, EngineHealth::State::kOk);
}

TEST_F(SwapTest, PartsThatTheEngineCannotTakeAreNotTaken) {
  EngineLimits padded = small_limits();
  padded.padding_block = padded.num_blocks - 1;  // an Execution runs a batch of padding when it begins
  start_slow(padded);
  FakeWorld next(padded);
  next.before_forward = [](std::int64_t) { throw std::runtime_error("no memory for the largest batch"); };
  bool is_taken = false;
  Collector collector;
  begin(collector);
  EXPECT_THROW(engine->swap([&](const StepUse&) {
    return Replacement{next.parts(), padded, false, [&] { is_taken = true; }};
  }),
               PartError);
  EXPECT_FALSE(is_taken);
  expect_answer(collector);
}

TEST_F(SwapTest, AnIdleEngineSwapsAndADrainingOneRefuses) {
  start();
  FakeWorld next(small_limits());
  const SwapFigures figures = swap_to(next);
  EXPECT_EQ(figures.pause_s, 0);  // nobody waited
  EXPECT_EQ(figures.largest_gap_s, 0);
  EXPECT_EQ(swap_to(*world).generation, 2u);
  ASSERT_TRUE(engine->drain(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  EXPECT_THROW(swap_to(next), Error);
}

TEST_F(SwapTest, AnnouncedBlocksMustStayAsTheyAre) {
  struct Observer : KvObserver {
    void stored(BlockId, std::span<const std::int32_t>, BlockId) override { ++num_stored; }
    void removed(BlockId) override { ++num_removed; }
    int num_stored = 0, num_removed = 0;
  } observer;
  world = std::make_unique<FakeWorld>(small_limits());
  EngineHooks hooks;
  hooks.kv_observer = &observer;
  start(small_limits(), {}, hooks);
  Collector collector;
  engine->submit(greedy(kPrompt, kLength), collector.sink());
  expect_answer(collector);
  EngineLimits larger = small_limits();
  larger.num_blocks = 30;
  FakeWorld other_size(larger), same_size(small_limits());
  EXPECT_THROW(swap_to(other_size), Error);
  swap_to(same_size);
  engine.reset();
  EXPECT_GT(observer.num_stored, 0);
  EXPECT_EQ(observer.num_removed, observer.num_stored);  // routers hear that nothing is cached any more
}

}  // namespace
}  // namespace mortise::test
