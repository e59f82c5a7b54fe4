// runtime/conformance/scheduler_cases.cpp: rules of schedulers, on a simulated engine that checks every plan.
#include <algorithm>
#include <chrono>

#include "conformance/scheduler_driver.hpp"
#include "conformance/subject.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/scheduler.h"

namespace mortise::conformance {
namespace {

constexpr std::int64_t kMaxSteps = 20000;  // a scenario of a few dozen requests takes some hundred

// Runs until all requests have ended.
void run_all(SimulatedEngine& engine) {
  for (const std::int64_t begin = engine.num_steps(); !engine.idle();) {
    engine.step();
    expect(engine.num_steps() - begin < kMaxSteps, "after {} steps {} requests have not ended", kMaxSteps,
           engine.num_live());
  }
  expect(engine.holds_nothing() || engine.num_pins() > 0, "blocks are held although all requests have ended");
}

// Runs requests that come in bursts and lulls, and aborts some of them.
void run_mix(Subject& subject, const SimulationOptions& options, int num_requests = 60) {
  for (int round = 0; round < subject.rounds(2); ++round) {
    const auto part = subject.make_active();
    SimulatedEngine engine(guarded_calls(*part), options, subject.random()());
    for (int submitted = 0; submitted < num_requests;) {
      const bool is_burst = subject.random()() % 8 == 0;
      for (std::uint64_t i = is_burst ? subject.random()() % 12 : 1; i > 0; --i, ++submitted) engine.submit_random();
      for (std::uint64_t i = subject.random()() % 6; i > 0 && !engine.idle(); --i) engine.step();
      if (subject.random()() % 16 == 0) engine.abort_random();
    }
    run_all(engine);
  }
}

void plain_mix(Subject& subject) {
  run_mix(subject, {});
}
void scarce_blocks(Subject& subject) {
  run_mix(subject, {.num_blocks = 20, .block_size = 8, .seq_budget = 12});
}
void small_blocks(Subject& subject) {
  run_mix(subject, {.num_blocks = 400, .block_size = 1, .token_budget = 24});
}
void small_budgets(Subject& subject) {
  run_mix(subject, {.token_budget = 3, .seq_budget = 2}, 12);
  run_mix(subject, {.token_budget = 1, .seq_budget = 1}, 4);
}
void shared_prefixes(Subject& subject) {
  run_mix(subject, {.num_blocks = 64, .num_prefixes = 4, .nested = true, .holds_back = true});
}
void scarce_shared_blocks(Subject& subject) {
  run_mix(subject, {.num_blocks = 24, .block_size = 8, .seq_budget = 12, .num_prefixes = 3});
}
void drafts(Subject& subject) {
  run_mix(subject, {.num_blocks = 40, .max_lookahead = 7});
}
void whole_drafts(Subject& subject) {
  run_mix(subject, {.num_blocks = 40, .max_lookahead = 7, .whole_drafts = true});
}
void priorities(Subject& subject) {
  run_mix(subject, {.num_blocks = 40, .num_priorities = 4});
}
void groups(Subject& subject) {
  run_mix(subject, {.num_prefixes = 4, .num_groups = 3, .holds_back = true});
}
void without_prefix_cache(Subject& subject) {
  run_mix(subject, {.num_prefixes = 3, .prefix_cache = false});
}
void replaced_plans(Subject& subject) {
  run_mix(subject, {.num_blocks = 40, .max_lookahead = 3, .num_prefixes = 2, .percent_replaced = 30});
}

void one_request(Subject& subject) {
  for (const auto& [prompt, generated] : {std::pair(1, 1), std::pair(1, 40), std::pair(15, 1), std::pair(16, 2),
                                          std::pair(17, 1), std::pair(500, 5), std::pair(1024, 1)}) {
    const auto part = subject.make_active();
    SimulatedEngine engine(guarded_calls(*part), {}, 1);
    engine.submit(prompt, generated);
    run_all(engine);
  }
}

// Runs a request that takes the whole pool, among small requests that never stop coming.
void a_large_request_is_not_starved(Subject& subject) {
  const auto part = subject.make_active();
  SimulatedEngine engine(guarded_calls(*part), {.num_blocks = 32, .seq_budget = 4}, subject.random()());
  for (int i = 0; i < 4; ++i) engine.submit(20, 10);
  const std::uint64_t large = engine.submit(400, 60);
  std::int64_t finished = engine.num_finished();
  while (engine.is_live(large)) {
    while (engine.num_live() < 12) engine.submit(20, 10);
    engine.step();  // throws when the host's bounds of starvation are passed
    expect(engine.num_steps() < kMaxSteps, "the large request does not end while small ones come: {} of them ended",
           engine.num_finished() - finished);
  }
}

// Runs a long request among short ones, which always go first in a policy that looks at the remaining work alone.
void a_long_request_is_not_starved(Subject& subject) {
  const auto part = subject.make_active();
  SimulatedEngine engine(guarded_calls(*part), {.num_blocks = 512, .seq_budget = 2}, subject.random()());
  const std::uint64_t waiting = engine.submit(200, 200);
  while (engine.is_live(waiting)) {
    while (engine.num_live() < 8) engine.submit(2, 2);
    engine.step();
    expect(engine.num_steps() < kMaxSteps, "a long request does not end while short ones come");
  }
}

void aborts(Subject& subject) {
  const auto part = subject.make_active();
  SimulatedEngine engine(guarded_calls(*part), {.num_blocks = 40, .num_prefixes = 2}, subject.random()());
  for (int i = 0; i < subject.rounds(200); ++i) {
    engine.submit_random();
    if (subject.random()() % 2 == 0) engine.step();
    engine.abort_random();
    if (engine.num_live() > 20) engine.step();
  }
  run_all(engine);
}

void a_new_scheduler_takes_over(Subject& subject) {
  const auto first = subject.make_active(), second = subject.make_active();
  SimulatedEngine engine(guarded_calls(*first), {.num_blocks = 40, .num_prefixes = 2}, subject.random()());
  for (int i = 0; i < 20; ++i) engine.submit_random();
  for (int i = 0; i < 15 && !engine.idle(); ++i) engine.step();
  engine.swap_scheduler(guarded_calls(*second));
  for (int i = 0; i < 10; ++i) engine.submit_random();
  run_all(engine);
}

// The host does not repeat events after a failure, so a scheduler may see sequences and ends that it never heard of.
void unknown_sequences_do_no_harm(Subject& subject) {
  const auto part = subject.make_active();
  SchedulerCalls calls = guarded_calls(*part);
  bool loses = false;
  const auto events = calls.events;
  calls.events = [&](const mortise_schedule_events& told) {
    if (!loses) events(told);
  };
  SimulatedEngine engine(calls, {.num_blocks = 40, .percent_replaced = 100}, subject.random()());
  for (int i = 0; i < 60; ++i) {
    loses = i % 3 == 0;
    for (int k = 0; k < 3; ++k) engine.submit_random();
    engine.tell_events();
    const auto& table = part->table<mortise_scheduler_table>();
    engine.with_view([&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
      const Answer answer = part->call("plan", [&](mortise_error* error) {
        return table.plan(part->handle<mortise_scheduler>(), &view, &plan, error);
      });
      expect(answer.status != MORTISE_INTERNAL, "plan of a view with an unknown sequence fails: {}", answer.text());
    });
    engine.step_by_host();
  }
}

void a_newer_view_changes_nothing(Subject& subject) {
  std::string expected;
  for (const std::uint32_t larger : {0u, 64u}) {
    const auto part = subject.make_active();
    std::string journal;
    const SchedulerCalls calls = guarded_calls(*part, &journal);
    SchedulerCalls newer = calls;
    newer.plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
      struct {
        mortise_schedule_view view;
        std::uint8_t tail[64];
      } bigger{view, {}};
      std::ranges::fill(bigger.tail, 0xa5);
      bigger.view.struct_size += larger;
      calls.plan(bigger.view, plan);
    };
    SimulatedEngine engine(newer, {.max_lookahead = 2}, 3);
    for (int i = 0; i < 10; ++i) engine.submit_random();
    run_all(engine);
    if (larger == 0) expected = journal;
    expect(journal == expected, "a view with a larger struct_size gives different plans");
  }
}

void smaller_options_are_kept(Subject& subject) {
  PartSetup setup = subject.setup();
  if (!setup.options.contains("max_num_seqs") || !setup.options.contains("max_batched_tokens")) {
    throw NotApplicable("it has no options max_num_seqs and max_batched_tokens");
  }
  setup.options["max_num_seqs"] = 2;
  setup.options["max_batched_tokens"] = 16;
  const auto part = subject.make_active(setup);
  SimulatedEngine engine(guarded_calls(*part), {.token_budget = 16, .seq_budget = 2}, 1);
  for (int i = 0; i < 20; ++i) engine.submit(30, 6);
  run_all(engine);
}

void many_wait(Subject& subject) {
  const auto part = subject.make_active();
  SimulatedEngine engine(guarded_calls(*part), {.num_blocks = 2000, .token_budget = 512, .seq_budget = 64}, 1);
  for (int i = 0; i < 3000; ++i) engine.submit(40, 4);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) engine.step();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  expect(seconds < 10, "20 plans with 3000 waiting requests take {:.1f} s", seconds);
}

void scheduler_state_is_released(Subject& subject) {
  const auto part = subject.make_active();
  SimulatedEngine engine(guarded_calls(*part), {.num_blocks = 40, .num_prefixes = 2}, 1);
  const auto live = [&] {
    for (int i = 0; i < 30; ++i) engine.submit_random();
    for (int i = 0; i < 5; ++i) engine.abort_random();
    run_all(engine);
    engine.tell_events();
  };
  live();
  const std::uint64_t before = part->host().allocated_bytes();
  for (int i = 0; i < subject.rounds(5); ++i) live();
  expect(part->host().allocated_bytes() <= before, "the host memory that it holds grows with requests that have ended");
}

constexpr Case kSchedulerCases[] = {
    {"scheduler.one_request", "A single request of any size runs to its end.", kOfScheduler, one_request},
    {"scheduler.mix", "Every plan keeps the bounds of scheduler.h, and all requests end.", kOfScheduler, plain_mix,
     true},
    {"scheduler.scarce_blocks", "Plans take no more blocks than are free, and preempt where that is needed.",
     kOfScheduler, scarce_blocks, true},
    {"scheduler.small_blocks", "Blocks may hold a single token.", kOfScheduler, small_blocks, true},
    {"scheduler.small_budgets", "Budgets of a few rows and sequences are kept.", kOfScheduler, small_budgets, true},
    {"scheduler.shared_prefixes", "Requests that share cached prefixes, and requests that the view omits, all end.",
     kOfScheduler, shared_prefixes, true},
    {"scheduler.scarce_shared", "Shared blocks are counted once, and as the host counts them.", kOfScheduler,
     scarce_shared_blocks, true},
    {"scheduler.drafts", "Plans grant drafts within lookahead, rows and blocks.", kOfScheduler, drafts, true},
    {"scheduler.whole_drafts", "Plans grant all drafts where MORTISE_VIEW_WHOLE_DRAFTS asks for it.", kOfScheduler,
     whole_drafts, true},
    {"scheduler.priorities", "Requests of every priority end.", kOfScheduler, priorities, true},
    {"scheduler.groups", "Requests with groups end.", kOfScheduler, groups, true},
    {"scheduler.no_cache", "Plans are valid without a prefix cache.", kOfScheduler, without_prefix_cache, true},
    {"scheduler.replaced_plans", "Plans stay valid when the host runs plans of its own in between.", kOfScheduler,
     replaced_plans, true},
    {"scheduler.large_request", "A request that needs the whole pool is not starved by small ones.", kOfScheduler,
     a_large_request_is_not_starved, true},
    {"scheduler.long_request", "A long request is not starved by short ones.", kOfScheduler,
     a_long_request_is_not_starved, true},
    {"scheduler.aborts", "Requests may be aborted at any time.", kOfScheduler, aborts, true},
    {"scheduler.swapped_in", "A scheduler takes over requests that another one has started.", kOfScheduler,
     a_new_scheduler_takes_over, true},
    {"scheduler.unknown", "Sequences that the scheduler was never told about do no harm.", kOfScheduler,
     unknown_sequences_do_no_harm, true},
    {"scheduler.newer_view", "A view with further fields changes no plan.", kOfScheduler, a_newer_view_changes_nothing},
    {"scheduler.options", "The options max_num_seqs and max_batched_tokens work with the budgets that they set.",
     kOfScheduler, smaller_options_are_kept},
    {"scheduler.many_wait", "A plan with thousands of waiting requests takes milliseconds.", kOfScheduler, many_wait},
    {"scheduler.state", "The host memory that the scheduler holds does not grow with requests that have ended.",
     kOfScheduler, scheduler_state_is_released},
};

}  // namespace

std::span<const Case> scheduler_cases() {
  return kSchedulerCases;
}

}  // namespace mortise::conformance
