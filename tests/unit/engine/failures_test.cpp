// What the failure of a part costs, in the engine: whose requests fail, who goes on, and with which tokens.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

class FailuresTest : public EngineTest {
 protected:
  FailuresTest() { world = std::make_unique<FakeWorld>(small_limits()); }

  // All of the requests are there before the first step's forward.
  void submit_together(const std::vector<Tokens>& prompts, std::int32_t max_tokens) {
    world->before_forward = [this](std::int64_t count) {
      while (count == 0 && !all_here) std::this_thread::yield();
    };
    start();
    collectors = std::vector<Collector>(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      engine->submit(greedy(prompts[i], max_tokens), collectors[i].sink());
    }
    all_here = true;
  }

  std::atomic<bool> all_here = false;
  std::vector<Collector> collectors;
};

// One sequence runs per step, four in turn while four wait, so the step that runs out of memory belongs to one
// sequence.
TEST_F(FailuresTest, AStepWithoutMemoryCostsItsOwnSequencesAndChangesNoTokenOfTheOthers) {
  world->plan = [](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    std::int32_t index = static_cast<std::int32_t>(view.step_id % 4) % view.num_seqs;
    if (view.num_free_blocks < 8 && view.states[index] == MORTISE_SEQ_WAITING) index = 0;
    plan.num_scheduled = 1;
    plan.seqs[0] = index;
    plan.num_new_tokens[0] = std::min(
        view.token_budget, view.num_tokens[index] - std::max(view.num_computed[index], view.num_cached[index]));
  };
  world->forward_status = [](std::int64_t count) { return count == 23 ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_OK; };
  std::vector<Tokens> prompts;
  for (std::int32_t i = 0; i < 8; ++i) prompts.push_back({1, 2, 3, 4, 5, 6 + i, 7});
  submit_together(prompts, 10);
  int num_failed = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto choice = collectors[i].wait().at(0);
    if (choice.last.finish != FinishReason::kError) {
      EXPECT_EQ(choice.ids(), expected(prompts[i], 10)) << "request " << i;
      continue;
    }
    ++num_failed;
    EXPECT_EQ(choice.last.code, ErrorCode::kOverloaded);
    EXPECT_THAT(choice.last.error, HasSubstr("lower max_batched_tokens"));
    EXPECT_THAT(choice.last.error, HasSubstr("model 'fake': forward"));
  }
  EXPECT_EQ(num_failed, 1);  // 8: those that were not in the step were ended with it
  EXPECT_EQ(engine->stats().num_free_blocks + engine->stats().num_cached_free_blocks, engine->stats().num_blocks);
}

TEST_F(FailuresTest, AfterAnInvalidStepTheOthersGoOn) {
  world->forward_status = [](std::int64_t count) { return count == 3 ? MORTISE_INVALID_ARGUMENT : MORTISE_OK; };
  submit_together({{1}, {2}, {3}, {4}, {5}, {6}}, 10);
  int num_failed = 0;
  for (std::size_t i = 0; i < collectors.size(); ++i) {
    const auto choice = collectors[i].wait().at(0);
    if (choice.last.finish == FinishReason::kError) {
      ++num_failed;
      EXPECT_EQ(choice.last.code, ErrorCode::kInternal);
    } else {
      EXPECT_EQ(choice.ids(), expected({static_cast<std::int32_t>(i) + 1}, 10));
    }
  }
  EXPECT_EQ(num_failed, 4);  // max_num_seqs of them run at a time
}

TEST_F(FailuresTest, AModelThatThrowsIsNeverCalledAgain) {
  world->forward_status = [](std::int64_t count) -> mortise_status {
    if (count == 3) throw std::runtime_error("out of the blue");
    return MORTISE_OK;
  };
  submit_together({{1}, {2}, {3}, {4}, {5}, {6}}, 10);
  for (Collector& collector : collectors) {
    const auto choice = collector.wait().at(0);
    EXPECT_EQ(choice.last.code, ErrorCode::kUnavailable);
    EXPECT_THAT(choice.last.error, HasSubstr("model 'fake': forward: an exception crossed the C ABI: out of the blue"));
  }
  try {
    engine->submit(greedy({1}, 10), Sink());
    FAIL() << "a request was accepted that can never run";
  } catch (const Error& refused) {
    EXPECT_EQ(refused.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(refused.what(), HasSubstr("the engine accepts no requests because one of its parts failed: "));
    EXPECT_THAT(refused.what(), HasSubstr("out of the blue"));
  }
  EXPECT_EQ(world->num_forwards, 4);
}

TEST_F(FailuresTest, ASchedulerThatThrowsIsNeverCalledAgain) {
  int num_calls = 0;
  world->plan = [&](const mortise_schedule_view&, mortise_schedule_plan&) {
    ++num_calls;
    throw std::runtime_error("no plan");
  };
  submit_together({{1}, {2}, {3}, {4}, {5}, {6}}, 10);
  for (std::size_t i = 0; i < collectors.size(); ++i) {
    EXPECT_EQ(collectors[i].wait().at(0).ids(), expected({static_cast<std::int32_t>(i) + 1}, 10));
  }
  EXPECT_EQ(num_calls, 1);
}

TEST_F(FailuresTest, APlansPointersAreTheHosts) {
  world->plan = [](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    plan.num_scheduled = 1;
    plan.seqs[0] = 0;
    plan.num_new_tokens[0] = view.num_tokens[0] - std::max(view.num_computed[0], view.num_cached[0]);
    plan.seqs = plan.num_new_tokens = plan.max_drafts = reinterpret_cast<std::int32_t*>(8);
  };
  submit_together({{1}, {2}}, 5);
  for (std::size_t i = 0; i < collectors.size(); ++i) {
    EXPECT_EQ(collectors[i].wait().at(0).ids(), expected({static_cast<std::int32_t>(i) + 1}, 5));
  }
  EXPECT_EQ(engine->stats().num_rejected_plans, 0u);  // more: what the plan said before was not read
}

// The first request is never scheduled while others wait.
TEST_F(FailuresTest, AStarvedRequestIsRunByTheHost) {
  std::int32_t num_left = 0;  // others that were still there when the first had ended
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    if (view.seq_ids[0] != 1) num_left = std::max(num_left, view.num_seqs);
    std::int32_t places =
        3 - static_cast<std::int32_t>(std::count(view.states, view.states + view.num_seqs, MORTISE_SEQ_RUNNING));
    for (std::int32_t i = 0; i < view.num_seqs; ++i) {
      const bool waits = view.states[i] == MORTISE_SEQ_WAITING;
      if (view.seq_ids[i] == 1 || (waits && places-- <= 0)) continue;
      plan.seqs[plan.num_scheduled] = i;
      plan.num_new_tokens[plan.num_scheduled++] =
          view.num_tokens[i] - std::max(view.num_computed[i], view.num_cached[i]);
    }
  };
  std::vector<Tokens> prompts;
  for (std::int32_t i = 0; i < 800; ++i) prompts.push_back({1 + i % 90, 2 + i / 90});
  submit_together(prompts, 8);
  EXPECT_EQ(collectors[0].wait().at(0).ids(), expected(prompts[0], 8));
  for (std::size_t i = 1; i < prompts.size(); ++i) {
    EXPECT_EQ(collectors[i].wait().at(0).ids(), expected(prompts[i], 8)) << "request " << i;
  }
  // One: the first step may have come when nobody else was there, and then its plan was empty.
  EXPECT_LE(engine->stats().num_rejected_plans, 1u);  // more: starving is taken for a bad plan
  EXPECT_GT(engine->stats().num_starved, 0u);
  EXPECT_LE(engine->stats().num_starved, 2u);
  engine.reset();
  EXPECT_GT(num_left, 20);  // 0: it was run when nobody else was left
}

}  // namespace
}  // namespace mortise::test
