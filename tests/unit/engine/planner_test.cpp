// Plans of a scheduler, good and bad: a bad one is counted and replaced, and no token changes.
#include "engine/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using namespace mortise::test;

class PlannerTest : public EngineTest {};

TEST_F(PlannerTest, ASchedulerMayGrantFewerDraftsThanTheLookahead) {
  EngineLimits limits = small_limits();
  limits.max_drafts = 3;
  world = std::make_unique<FakeWorld>(limits);
  std::int32_t most_asked = 0;
  world->propose = [&](std::uint64_t, std::int32_t max) {
    most_asked = std::max(most_asked, max);
    return std::vector<std::int32_t>(static_cast<std::size_t>(max), 1);
  };
  world->plan = [](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    plan.num_scheduled = 1;
    plan.seqs[0] = 0;
    plan.num_new_tokens[0] = view.num_tokens[0] - view.num_computed[0];
    EXPECT_EQ(plan.max_drafts[0], view.lookahead[0]);
    plan.max_drafts[0] = std::min(view.lookahead[0], 2);
  };
  start(limits);
  Collector collector;
  engine->submit(greedy({1, 2}, 12), collector.sink());
  EXPECT_EQ(collector.wait().at(0).ids(), expected({1, 2}, 12));
  EXPECT_EQ(engine->stats().num_rejected_plans, 0u);
  engine.reset();
  EXPECT_EQ(most_asked, 2);  // 3: the grant was not heard
}

TEST_F(PlannerTest, APlanThatGrantsMoreDraftsThanTheLookaheadOrCutsWholeOnesIsRefused) {
  for (const bool whole : {false, true}) {
    EngineLimits limits = small_limits();
    limits.max_drafts = 3;
    limits.rejection = whole;
    world = std::make_unique<FakeWorld>(limits);
    world->propose = [](std::uint64_t, std::int32_t max) {
      return std::vector<std::int32_t>(static_cast<std::size_t>(max), 1);
    };
    world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
      EXPECT_EQ((view.flags & MORTISE_VIEW_WHOLE_DRAFTS) != 0, whole);
      plan.num_scheduled = 1;
      plan.seqs[0] = 0;
      plan.num_new_tokens[0] = view.num_tokens[0] - view.num_computed[0];
      plan.max_drafts[0] += whole ? -1 : 1;
    };
    start(limits);
    Collector collector;
    engine->submit(greedy({1, 2}, 12), collector.sink());
    EXPECT_EQ(collector.wait().at(0).ids(), expected({1, 2}, 12));
    EXPECT_GT(engine->stats().num_rejected_plans, 0u);
    engine.reset();
  }
}

TEST_F(PlannerTest, AMaliciousSchedulerNeverStopsOrChangesAnything) {
  std::mt19937 random(3);
  world = std::make_unique<FakeWorld>(small_limits());
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    const auto any = [&] { return static_cast<std::int32_t>(random()) % 100 - 20; };
    plan.num_scheduled = any() % (view.num_seqs + 2);
    plan.num_preempted = any() % (view.num_seqs + 2);
    for (std::int32_t i = 0; i < view.num_seqs; ++i) {
      plan.seqs[i] = any();
      plan.num_new_tokens[i] = any();
      plan.preempted[i] = any();
    }
  };
  start();
  std::vector<Collector> collectors(10);
  for (std::size_t i = 0; i < collectors.size(); ++i) {
    engine->submit(greedy({static_cast<std::int32_t>(i)}, 15), collectors[i].sink());
  }
  for (std::size_t i = 0; i < collectors.size(); ++i) {
    EXPECT_EQ(collectors[i].wait().at(0).ids(), expected({static_cast<std::int32_t>(i)}, 15));
  }
  engine.reset();
}

}  // namespace
}  // namespace mortise
