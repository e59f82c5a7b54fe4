// Swaps with verify_steps: what is equal comes in with its state, what differs in a bit or breaks a rule is refused
// with the place, and the tokens of what runs stay in both cases.
// Covers: runtime/engine/candidate_drafting runtime/execution/{attention_pair,difference,side_run}
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <future>
#include <stop_token>
#include <thread>
#include <utility>

#include "engine/verified_swap.hpp"
#include "error.hpp"
#include "swap_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
// First come, first served, a chunk of what is left each, as far as rows and places go.
void plan_fcfs(const mortise_schedule_view& view, mortise_schedule_plan& plan) {
  std::int32_t rows = view.token_budget, places = view.seq_budget;
  for (std::int32_t i = 0; i < view.num_seqs; ++i) places -= view.states[i] == MORTISE_SEQ_RUNNING ? 1 : 0;
  for (std::int32_t i = 0; i < view.num_seqs && rows > 0; ++i) {
    const bool waits = view.states[i] == MORTISE_SEQ_WAITING;
    if (waits && places-- <= 0) continue;
    const std::int32_t begin = waits ? view.num_cached[i] : view.num_computed[i];
    const std::int32_t n = std::min(view.num_tokens[i] - begin, rows);
    plan.max_drafts[i] = 0;
    plan.seqs[plan.num_scheduled] = i;
    plan.num_new_tokens[plan.num_scheduled++] = n;
    rows -= n;
  }
}

void flip_lowest_bit(void* number) {
  *static_cast<std::uint32_t*>(number) ^= 1;
}

class VerifiedSwapTest : public SwapFixture {
 protected:
  static EngineLimits drafting_limits() {
    EngineLimits limits = small_limits();
    limits.max_drafts = 3;
    return limits;
  }
  // Every step takes a moment, so that a request that runs still runs when a swap comes.
  void start_slow(const EngineLimits& limits = small_limits(), std::chrono::milliseconds patience = {}) {
    if (!world) world = std::make_unique<FakeWorld>(limits);
    world->before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    EngineHooks hooks;
    if (patience.count() > 0) hooks.verify_patience = patience;
    start(limits, {}, hooks);
  }
  SwapFigures verify(const Parts& parts, const EngineLimits& limits, std::int32_t steps) {
    return engine->swap([&](const StepUse&) { return Replacement{parts, limits, true}; }, steps);
  }
  SwapFigures verify_scheduler(FakeWorld& next, std::int32_t steps) {
    Parts parts = world->parts();
    parts.scheduler = next.parts().scheduler;
    return verify(parts, world->limits, steps);
  }
  SwapFigures verify_proposer(FakeWorld& next, std::int32_t steps) {
    Parts parts = world->parts();
    parts.proposers = next.parts().proposers;
    return verify(parts, next.limits, steps);
  }
  SwapFigures verify_attention(FakeWorld& next, std::int32_t steps) {
    Parts parts = world->parts();
    parts.attention = next.parts().attention;
    return verify(parts, world->limits, steps);
  }
  SwapFigures verify_model(FakeWorld& next, std::int32_t steps) {
    Parts parts = next.parts();
    static_cast<Policies&>(parts) = world->parts();
    return verify(parts, world->limits, steps);
  }
  template <typename Swap>
  static SwapDifference refused(const Swap& swap) {
    try {
      swap();
    } catch (const DifferenceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kConflict);
      EXPECT_THAT(error.what(), HasSubstr(" does not replace it: step "));
      text = error.what();
      return error.where();
    }
    ADD_FAILURE() << "the swap was made";
    return {};
  }
  static inline std::string text;  // of the last refusal
};

TEST_F(VerifiedSwapTest, AnEqualAttentionComesInWithTheKvThatItWroteBeside) {
  world = std::make_unique<FakeWorld>(small_limits());
  world->calls_attention = true;
  start_slow();
  FakeWorld next(small_limits());
  Collector collector;
  begin(collector);
  const SwapFigures figures = verify_attention(next, 10);
  EXPECT_EQ(figures.generation, 1u);
  EXPECT_EQ(figures.verified_steps, 10);
  EXPECT_EQ(figures.num_recomputed, 1u);  // once, when the candidate came beside: 2 would be at the exchange too
  EXPECT_GT(figures.verified.attention_rows.value_or(0), 10u);
  EXPECT_FALSE(figures.verified.model_rows || figures.verified.scheduler || figures.verified.proposer);
  world->kv.assign(world->kv.size(), -1);  // nobody reads it any more
  expect_answer(collector);
}

TEST_F(VerifiedSwapTest, AnAttentionThatIsWrongInOneBitOfOneRowIsRefusedWithThePlace) {
  world = std::make_unique<FakeWorld>(small_limits());
  world->calls_attention = true;
  start_slow();
  FakeWorld next(small_limits());
  int num_runs = 0;
  next.attention_output = [&](const mortise_batch& batch, const mortise_tensor& out) {
    if (++num_runs != 7) return;
    flip_lowest_bit(static_cast<float*>(out.data) + (batch.num_tokens - 1) * out.stride[0] + 2);
  };
  Collector first, second;
  begin(first);
  begin(second);
  const SwapDifference where = refused([&] { verify_attention(next, 1000); });
  EXPECT_EQ(where.part, "attention 'fake'");
  EXPECT_EQ(where.num_equal_steps, 6);
  EXPECT_EQ(where.request, 2u);
  EXPECT_EQ(where.choice, 0);
  EXPECT_EQ(where.difference.layer, 0);
  EXPECT_GE(where.difference.position, static_cast<std::int32_t>(kPrompt.size()));
  EXPECT_EQ(where.difference.element, 2);
  EXPECT_EQ(where.difference.serving.bits ^ where.difference.candidate.bits, 1u);
  EXPECT_EQ(where.difference.serving.value, std::bit_cast<float>(where.difference.serving.bits));
  EXPECT_THAT(text,
              AllOf(HasSubstr("request 2, layer 0, position "), HasSubstr("element 2 of the attention output is "),
                    HasSubstr("6 of 1000 steps before it were equal, and the previous parts continue to serve")));
  expect_answer(first);
  expect_answer(second);
  EXPECT_EQ(num_runs, 7);  // it is not called any more
}

TEST_F(VerifiedSwapTest, AnAttentionThatFailsIsRefusedAndTheModelHearsNothingOfIt) {
  for (const std::string function : {"plan", "append", "run"}) {
    world = std::make_unique<FakeWorld>(small_limits());
    world->calls_attention = true;
    start_slow();
    FakeWorld next(small_limits());
    next.attention_status = [&](const char* called) { return called == function ? MORTISE_INTERNAL : MORTISE_OK; };
    Collector collector;
    begin(collector);
    const SwapDifference where = refused([&] { verify_attention(next, 5); });
    EXPECT_EQ(where.num_equal_steps, 0);
    EXPECT_THAT(text, AllOf(HasSubstr(function + " failed: "), HasSubstr("as the test wants it")));
    expect_answer(collector);
    engine.reset();
  }
}

TEST_F(VerifiedSwapTest, AnEqualModelComesInAndOneThatIsWrongInALogitIsRefused) {
  start_slow();
  FakeWorld next(small_limits()), wrong(small_limits());
  int num_rows = 0;
  wrong.edit_logits = [&](float* logits, std::int64_t) {
    if (++num_rows == 5) flip_lowest_bit(logits + 11);
  };
  Collector collector;
  begin(collector);
  const SwapDifference where = refused([&] { verify_model(wrong, 100); });
  EXPECT_EQ(where.part, "model 'fake'");
  EXPECT_EQ(where.request, 1u);
  EXPECT_EQ(where.difference.what, "logits");
  EXPECT_EQ(where.difference.layer, -1);
  EXPECT_EQ(where.difference.element, 11);
  const SwapFigures figures = verify_model(next, 6);
  EXPECT_EQ(figures.verified_steps, 6);
  EXPECT_GE(figures.verified.model_rows.value_or(0), 6u);
  const std::int64_t before = world->num_forwards;
  expect_answer(collector);
  Collector later;
  begin(later);
  expect_answer(later);
  engine.reset();
  EXPECT_EQ(world->num_forwards, before);
}

TEST_F(VerifiedSwapTest, AModelThatFailsOrGivesOtherHiddenRowsIsRefused) {
  start_slow();
  FakeWorld failing(small_limits()), other(small_limits());
  failing.forward_status = [](std::int64_t) { return MORTISE_RESOURCE_EXHAUSTED; };
  other.before_forward = [&](std::int64_t count) {
    if (count == 3) other.kv.assign(other.kv.size(), 9);
  };
  Collector collector;
  begin(collector, 50);
  refused([&] { verify_model(failing, 5); });
  EXPECT_THAT(text, HasSubstr("a step failed: model 'fake': forward"));
  const SwapDifference where = refused([&] { verify_model(other, 50); });
  EXPECT_EQ(where.difference.what, "hidden row");
  EXPECT_EQ(where.num_equal_steps, 3);
  expect_answer(collector, 50);
}

TEST_F(VerifiedSwapTest, ASchedulerComesInWithAllThatItWasTold) {
  world = std::make_unique<FakeWorld>(small_limits());
  world->plan = plan_fcfs;
  start_slow();
  FakeWorld next(small_limits());
  next.plan = plan_fcfs;
  Collector first, second;
  begin(first);
  auto swapped = std::async(std::launch::async, [&] { return verify_scheduler(next, 15); });
  begin(second);
  const SwapFigures figures = swapped.get();
  EXPECT_EQ(figures.verified_steps, 15);
  EXPECT_EQ(figures.num_recomputed, 0u);
  ASSERT_TRUE(figures.verified.scheduler);
  EXPECT_EQ(figures.verified.scheduler->num_plans, 15u);
  EXPECT_GT(figures.verified.scheduler->candidate_s, 0);
  EXPECT_GT(figures.verified.scheduler->serving_s, 0);
  expect_answer(first);
  expect_answer(second);
  Collector third;
  begin(third);
  EXPECT_EQ(engine->stats().num_rejected_plans, 0u);
  engine.reset();
  int num_added = 0;
  for (const FakeWorld::Event& event : next.events) num_added += event.kind == MORTISE_EVENT_ADDED ? 1 : 0;
  EXPECT_EQ(num_added, 3);  // each of them once, though it came in while two were live
  EXPECT_EQ(next.scheduler_alive, std::set<std::uint64_t>{3});
}

TEST_F(VerifiedSwapTest, ASchedulerThatBreaksAPlanIsRefusedWithSequenceAndRule) {
  world = std::make_unique<FakeWorld>(small_limits());
  world->plan = plan_fcfs;
  start_slow();
  FakeWorld next(small_limits());
  int num_plans = 0;
  next.plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    plan_fcfs(view, plan);
    if (++num_plans == 9) plan.num_new_tokens[0] = 17;
  };
  Collector collector;
  begin(collector);
  const SwapDifference where = refused([&] { verify_scheduler(next, 1000); });
  EXPECT_EQ(where.part, "scheduler 'fake'");
  EXPECT_EQ(where.num_equal_steps, 8);
  EXPECT_EQ(where.request, 1u);
  EXPECT_THAT(text, HasSubstr("its plan is refused: num_new_tokens[0] = 17, but 1 tokens need to run"));
  expect_answer(collector);
  EXPECT_EQ(engine->stats().num_rejected_plans, 0u);  // of the one that serves
}

TEST_F(VerifiedSwapTest, ASchedulerThatStarvesASequenceIsRefused) {
  EngineLimits limits = small_limits();
  limits.max_batched_tokens = 2;  // the bound is 512 rows
  limits.max_num_seqs = 2;
  limits.max_model_len = 256;
  limits.num_blocks = 150;
  world = std::make_unique<FakeWorld>(limits);
  start_slow(limits);
  FakeWorld next(limits);
  next.plan = [](const mortise_schedule_view& view, mortise_schedule_plan& plan) {  // the youngest that can run, alone
    std::int32_t i = view.num_seqs - 1;
    const auto num_running = std::count(view.states, view.states + view.num_seqs, MORTISE_SEQ_RUNNING);
    while (i > 0 && view.states[i] == MORTISE_SEQ_WAITING && num_running == view.seq_budget) --i;
    plan.seqs[0] = i;
    plan.num_new_tokens[0] = 1;
    plan.max_drafts[i] = 0;
    plan.num_scheduled = 1;
  };
  Collector oldest;
  begin(oldest, 240);
  std::atomic<bool> ends = false;
  std::thread younger([&] {  // always one that the candidate prefers
    std::deque<Collector> collectors(1);
    RequestId id = engine->submit(greedy(kPrompt, 240), collectors.back().sink());
    while (!ends) {
      Collector& running = collectors.back();
      const RequestId next_id = engine->submit(greedy(kPrompt, 240), collectors.emplace_back().sink());
      running.wait_for_tokens(1);
      engine->abort(std::exchange(id, next_id));
    }
    engine->abort(id);
    for (Collector& collector : collectors) collector.wait();
  });
  const SwapDifference where = refused([&] { verify_scheduler(next, 1'000'000); });
  ends = true;
  younger.join();
  EXPECT_EQ(where.request, 1u);
  EXPECT_THAT(text, HasSubstr(" starves: later sequences that were admitted before it"));
  EXPECT_EQ(engine->stats().num_starved, 0u);
  expect_answer(oldest, 240);
}

TEST_F(VerifiedSwapTest, AProposerDraftsBesideAndItsAcceptanceIsMeasured) {
  world = std::make_unique<FakeWorld>(drafting_limits());
  world->propose = [](std::uint64_t, std::int32_t) { return Tokens{7}; };
  start_slow(drafting_limits());
  FakeWorld next(drafting_limits());
  next.limits.max_drafts = 2;
  next.propose = [&](std::uint64_t id, std::int32_t max) {
    Tokens drafts;
    Tokens history = id < next.observed.size() ? next.observed[id] : Tokens{};
    if (history.empty()) return drafts;  // not told of it yet
    for (std::int32_t i = 0; i < max; ++i) {
      drafts.push_back(next_token(history));
      history.push_back(drafts.back());
    }
    return drafts;
  };
  Collector collector;
  begin(collector);
  const SwapFigures figures = verify_proposer(next, 12);
  EXPECT_EQ(figures.verified_steps, 12);
  EXPECT_EQ(figures.num_recomputed, 0u);
  ASSERT_TRUE(figures.verified.proposer);
  const auto& [candidate, serving] = *figures.verified.proposer;
  EXPECT_GE(candidate.num_drafts, 16u);
  EXPECT_EQ(candidate.num_accepted, candidate.num_drafts);
  EXPECT_GT(candidate.seconds, 0);
  EXPECT_GE(serving.num_drafts, 10u);
  EXPECT_LT(serving.num_accepted, serving.num_drafts);
  expect_answer(collector);
  EXPECT_EQ(engine->stats().num_proposer_failures, 0u);
  engine.reset();
  Tokens history = kPrompt;
  for (const std::int32_t token : expected(kPrompt, kLength)) history.push_back(token);
  EXPECT_EQ(next.observed.at(1), history);  // told once
  EXPECT_TRUE(next.proposer_alive.empty());
}

TEST_F(VerifiedSwapTest, AProposerWhoseDraftsBreakABoundIsRefused) {
  world = std::make_unique<FakeWorld>(drafting_limits());
  start_slow(drafting_limits());  // nobody drafts
  FakeWorld next(drafting_limits());
  int num_asked = 0;
  next.propose = [&](std::uint64_t, std::int32_t) { return ++num_asked < 6 ? Tokens{7} : Tokens{kVocab}; };
  Collector collector;
  begin(collector);
  const SwapDifference where = refused([&] { verify_proposer(next, 100); });
  EXPECT_EQ(where.part, "proposer 'fake'");
  EXPECT_EQ(where.num_equal_steps, 6);  // 5: it was asked in the first step, before it was told of the sequence
  EXPECT_EQ(where.request, 1u);
  EXPECT_THAT(text, HasSubstr("its drafts are refused: token id 97 is not in the vocabulary of 97 tokens"));
  expect_answer(collector);
  EXPECT_EQ(engine->stats().num_drafts, 0u);
}

TEST_F(VerifiedSwapTest, OtherSizesAndNothingToCompareAreRefused) {
  start_slow();
  EngineLimits limits = small_limits();
  limits.block_size = 8;
  FakeWorld next(limits);
  const auto why = [&](const Parts& parts, const EngineLimits& sizes, std::int32_t steps = 3) -> std::string {
    try {
      verify(parts, sizes, steps);
    } catch (const Error& error) {
      return error.what();
    }
    return "the swap was made";
  };
  EXPECT_THAT(why(next.parts(), limits),
              HasSubstr("verify_steps compares parts at the current sizes, but block_size is 4 and would be 8; "));
  EXPECT_THAT(why(world->parts(), small_limits()),
              HasSubstr("verify_steps: the swap brings no attention, model, scheduler or proposer"));
  EXPECT_THAT(why(world->parts(), small_limits(), -1), HasSubstr("verify_steps is -1; it must be at least 0"));
  EngineLimits drafting = small_limits();
  drafting.max_drafts = 3;
  drafting.max_paths = 2;
  drafting.max_batched_tokens = 16;
  FakeWorld both(drafting);
  EXPECT_THAT(why(both.parts(), drafting), HasSubstr("swap the proposers first, then the other parts"));
}

TEST_F(VerifiedSwapTest, AnIdleEngineRefusesAfterAWhileAndADrainingOneAtOnce) {
  start_slow(small_limits(), std::chrono::milliseconds(50));
  FakeWorld next(small_limits());
  next.plan = plan_fcfs;
  const auto why = [&]() -> std::string {
    try {
      verify_scheduler(next, 500);
    } catch (const Error& error) {
      return error.what();
    }
    return "the swap was made";
  };
  EXPECT_THAT(why(), AllOf(HasSubstr("no step could be compared for 0.05 s"), HasSubstr("0 of 500 steps were")));
  engine.reset();
  start_slow();
  auto waiting = std::async(std::launch::async, why);
  Collector collector;
  begin(collector);
  engine->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_THAT(waiting.get(), HasSubstr("the engine is shutting down"));
  expect_answer(collector);
}

TEST_F(VerifiedSwapTest, AServingPartThatFailsEndsTheComparison) {
  start_slow();
  world->forward_status = [](std::int64_t count) { return count < 20 ? MORTISE_OK : MORTISE_INTERNAL; };
  FakeWorld next(small_limits());
  next.plan = plan_fcfs;
  Collector collector;
  begin(collector);
  try {
    verify_scheduler(next, 500);
    ADD_FAILURE() << "the swap was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("the parts that serve have failed: model 'fake': forward"));
  }
  EXPECT_EQ(collector.wait().at(0).last.finish, FinishReason::kError);
}

TEST_F(VerifiedSwapTest, WhoGoesAwayEndsTheComparison) {
  start_slow();
  FakeWorld next(small_limits());
  next.plan = plan_fcfs;
  std::stop_source gone;
  auto waiting = std::async(std::launch::async, [&]() -> std::string {
    try {
      const auto make = [&](const StepUse&) {
        Parts parts = world->parts();
        parts.scheduler = next.parts().scheduler;
        return Replacement{parts, world->limits, true};
      };
      engine->swap(make, 500, gone.get_token());
    } catch (const Error& error) {
      return error.what();
    }
    return "the swap was made";
  });
  gone.request_stop();
  EXPECT_THAT(waiting.get(), HasSubstr("the client that asked for the swap no longer waits for it"));
}

TEST_F(VerifiedSwapTest, AnEngineThatEndsOrMakesOneAlreadyRefuses) {
  start_slow();
  FakeWorld next(small_limits()), other(small_limits());
  next.plan = plan_fcfs;
  std::promise<void> begun;
  auto waiting = std::async(std::launch::async, [&] {
    try {
      engine->swap(
          [&](const StepUse&) {
            begun.set_value();
            Parts parts = world->parts();
            parts.scheduler = next.parts().scheduler;
            return Replacement{parts, world->limits, true};
          },
          500);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("the swap was made");
  });
  begun.get_future().get();
  try {
    verify_scheduler(other, 0);
    ADD_FAILURE() << "the swap was made";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a swap with verify_steps is under way"));
  }
  engine.reset();
  EXPECT_THAT(waiting.get(),
              HasSubstr("the engine ended before the comparison; 0 of 500 steps were compared and equal"));
}

}  // namespace
}  // namespace mortise::test
