// The prefix cache as requests see it: the same tokens and scores as without it, for fewer rows.
// Covers: runtime/engine/{in_flight,sequence,sequence_kv}
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <thread>

#include "engine_fixture.hpp"

namespace mortise {
namespace {

using namespace mortise::test;

std::vector<std::int32_t> count(std::int32_t first, std::int32_t n) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < n; ++i) tokens.push_back((first + i) % kVocab);
  return tokens;
}

class PrefixCacheTest : public EngineTest {
 protected:
  // Runs one request to its end.
  Collector::Choice run(Request request) {
    Collector collector;
    engine->submit(std::move(request), collector.sink());
    return collector.wait().at(0);
  }
  std::uint64_t num_rows() { return engine->stats().num_rows; }
};

TEST_F(PrefixCacheTest, AHitGivesTheTokensOfAMissForFewerRows) {
  start();
  const auto miss = run(greedy(count(1, 21), 6));
  const std::uint64_t rows = num_rows();
  const auto hit = run(greedy(count(1, 21), 6));
  EXPECT_EQ(hit.ids(), expected(count(1, 21), 6));
  EXPECT_EQ(hit.ids(), miss.ids());
  EXPECT_EQ(miss.last.usage.cached_tokens, 0);
  EXPECT_EQ(hit.last.usage.cached_tokens, 20);  // 5 blocks of 4
  EXPECT_EQ(num_rows() - rows, 1u + 5u);        // the prompt's last token, then one row for each token but the last
  EXPECT_EQ(engine->stats().num_cached_tokens, 20u);
}

TEST_F(PrefixCacheTest, AFullyCachedPromptRunsItsLastBlock) {
  start();
  run(greedy(count(1, 20), 1));
  const std::uint64_t rows = num_rows();
  const auto hit = run(greedy(count(1, 20), 1));
  EXPECT_EQ(hit.ids(), expected(count(1, 20), 1));
  EXPECT_EQ(hit.last.usage.cached_tokens, 16);
  EXPECT_EQ(num_rows() - rows, 4u);
}

TEST_F(PrefixCacheTest, GeneratedTokensServeTheNextTurn) {
  start();
  std::vector<std::int32_t> dialogue = count(5, 9);
  const auto first = run(greedy(dialogue, 8));
  for (std::int32_t token : first.ids()) dialogue.push_back(token);
  dialogue.push_back(3);
  const auto second = run(greedy(dialogue, 5));
  EXPECT_EQ(second.last.usage.cached_tokens, 16);
  EXPECT_EQ(second.ids(), expected(dialogue, 5));
}

TEST_F(PrefixCacheTest, RequestsThatComeTogetherComputeTheirPrefixOnce) {
  EngineLimits limits = small_limits();
  limits.max_batched_tokens = 200;  // all of them would fit one step
  world = std::make_unique<FakeWorld>(limits);
  std::atomic<bool> all_here = false;
  world->before_forward = [&](std::int64_t count) {
    while (count == 0 && !all_here) std::this_thread::yield();
  };
  start();
  Collector first;
  engine->submit(greedy({90}, 1), first.sink());  // keeps the engine busy until the others are there
  std::list<Collector> collectors(4);
  std::vector<std::vector<std::int32_t>> prompts;
  for (Collector& collector : collectors) {
    prompts.push_back(count(1, 16));
    prompts.back().push_back(static_cast<std::int32_t>(40 + prompts.size()));
    engine->submit(greedy(prompts.back(), 1), collector.sink());
  }
  all_here = true;
  std::size_t i = 0;
  for (Collector& collector : collectors) EXPECT_EQ(collector.wait().at(0).ids(), expected(prompts[i++], 1));
  EXPECT_EQ(num_rows(), 1u + 17u + 3u);  // 69: each computed the 16 shared tokens
}

TEST_F(PrefixCacheTest, ChoicesOfARequestShareItsPrompt) {
  start();
  Request request = greedy(count(1, 13), 2);
  request.sampling.n = 3;
  Collector collector;
  engine->submit(request, collector.sink());
  for (const auto& [index, choice] : collector.wait(3)) EXPECT_EQ(choice.ids(), expected(count(1, 13), 2));
  EXPECT_EQ(num_rows(), 13u + 1u + 1u + 3u);  // 42: nothing was shared
}

TEST_F(PrefixCacheTest, AFollowerOfBetterPriorityDoesNotWait) {
  EngineLimits limits = small_limits();
  limits.max_batched_tokens = 4;  // the prompt takes several steps
  world = std::make_unique<FakeWorld>(limits);
  std::vector<std::int32_t> num_seen;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan&) { num_seen.push_back(view.num_seqs); };
  std::atomic<bool> all_here = false;
  world->before_forward = [&](std::int64_t count) {
    while (count == 0 && !all_here) std::this_thread::yield();
  };
  start();
  Collector leader, follower, urgent;
  engine->submit(greedy(count(1, 20), 1), leader.sink());
  engine->submit(greedy(count(1, 20), 1), follower.sink());
  Request request = greedy(count(1, 20), 1);
  request.priority = -1;
  engine->submit(request, urgent.sink());
  all_here = true;
  for (Collector* collector : {&leader, &follower, &urgent})
    EXPECT_EQ(collector->wait().at(0).ids(), expected(count(1, 20), 1));
  EXPECT_EQ(*std::max_element(num_seen.begin(), num_seen.begin() + 4), 2);  // 3: the follower did not wait
}

TEST_F(PrefixCacheTest, CachedScoresAreThoseThatWereComputed) {
  start();
  Request request = greedy(count(1, 30), 0);
  request.score_from = 1;
  request.logprobs = 3;
  const auto miss = run(request);
  const std::uint64_t rows = num_rows();
  for (std::int32_t wanted : {3, 1, 0}) {
    request.logprobs = wanted;
    const auto hit = run(request);
    ASSERT_EQ(hit.prompt.size(), miss.prompt.size());
    for (std::size_t i = 0; i < hit.prompt.size(); ++i) {
      EXPECT_EQ(hit.prompt[i].id, miss.prompt[i].id);
      EXPECT_EQ(hit.prompt[i].logprob, miss.prompt[i].logprob);
      EXPECT_EQ(hit.prompt[i].rank, miss.prompt[i].rank);
      ASSERT_EQ(hit.prompt[i].top.size(), static_cast<std::size_t>(wanted));
    }
  }
  EXPECT_EQ(num_rows() - rows, 3u * 5u);  // from token 24 on, whose score says where the cached prefix ends
}

TEST_F(PrefixCacheTest, ScoresThatTheCacheLacksAreComputed) {
  start();
  run(greedy(count(1, 30), 1));  // KV without scores
  Request request = greedy(count(1, 30), 1);
  request.score_from = 10;
  request.logprobs = 1;
  const auto fresh = run(request);
  EXPECT_EQ(fresh.last.usage.cached_tokens, 8);
  ASSERT_EQ(fresh.prompt.size(), 20u);
  request.logprobs = 2;  // more alternatives than are kept
  const auto more = run(request);
  EXPECT_EQ(more.last.usage.cached_tokens, 8);
  request.score_from = 13;
  const auto cached = run(request);
  EXPECT_EQ(cached.last.usage.cached_tokens, 24);
  for (std::size_t i = 0; i < 20; ++i) {
    const std::uint64_t hash = hash_history(count(1, 10 + static_cast<std::int32_t>(i)));
    EXPECT_EQ(fresh.prompt[i].logprob, fake_logit(hash, fresh.prompt[i].id) - 1.0f);
    EXPECT_EQ(more.prompt[i].logprob, fresh.prompt[i].logprob);
    if (i < 3) continue;
    EXPECT_EQ(cached.prompt[i - 3].logprob, fresh.prompt[i].logprob);
  }
}

// For completions of one prompt, each a request of its own: their right answers, and the rows that all of them took.
class CompletionsTest : public PrefixCacheTest {
 protected:
  static Request completion(std::int32_t num_prompt, std::int32_t which, std::int32_t length) {
    Request request = greedy(count(1, num_prompt), 0);
    for (std::int32_t i = 0; i < length; ++i) request.prompt.push_back((which * 7 + i * (which + 1) + 50) % kVocab);
    request.score_from = num_prompt;
    return request;
  }
  static void expect_exact(const Request& request, const Collector::Choice& choice) {
    const auto from = static_cast<std::size_t>(*request.score_from);
    ASSERT_EQ(choice.prompt.size(), request.prompt.size() - from);
    for (std::size_t i = from; i < request.prompt.size(); ++i) {
      const std::vector<std::int32_t> before(request.prompt.begin(), request.prompt.begin() + static_cast<long>(i));
      EXPECT_EQ(choice.prompt[i - from].id, request.prompt[i]);
      EXPECT_EQ(choice.prompt[i - from].logprob, fake_logit(hash_history(before), request.prompt[i]) - 1.0f);
    }
  }
  // Together, so that none finds another's prefix before the first step.
  std::uint64_t run_together(const std::vector<Request>& requests) {
    const std::uint64_t rows = num_rows();
    std::list<Collector> collectors;
    for (const Request& request : requests) {
      collectors.emplace_back();
      engine->submit(request, collectors.back().sink());
    }
    std::size_t i = 0;
    for (Collector& collector : collectors) expect_exact(requests[i++], collector.wait().at(0));
    return num_rows() - rows;
  }
};

TEST_F(CompletionsTest, APromptIsComputedOnceForAllItsCompletions) {
  // Prompts that end in a block, at its end and before the first one is full; completions that fill a block or not.
  for (const std::int32_t num_prompt : {2, 3, 4, 5, 7, 16, 17, 18, 19, 20, 33}) {
    for (const std::int32_t length : {1, 2, 5, 9}) {
      EngineLimits limits = small_limits();
      limits.max_batched_tokens = 200;
      limits.max_num_seqs = 16;
      limits.num_blocks = 200;
      world = std::make_unique<FakeWorld>(limits);
      // Another request's step lasts until all completions have been submitted.
      std::atomic<bool> all_there = false;
      world->before_forward = [&](std::int64_t) {
        while (!all_there) std::this_thread::yield();
      };
      start(limits);
      std::vector<Request> requests;
      for (std::int32_t which = 0; which < 8; ++which) requests.push_back(completion(num_prompt, which, length));
      Collector other;
      engine->submit(greedy({90}, 1), other.sink());
      std::list<Collector> collectors;
      for (const Request& request : requests) {
        collectors.emplace_back();
        engine->submit(request, collectors.back().sink());
      }
      all_there = true;
      std::size_t i = 0;
      for (Collector& collector : collectors) expect_exact(requests[i++], collector.wait().at(0));
      // Each runs the prompt's last token itself, and all of its own but the last. Where they are longer than twice
      // what is left of the prompt they do not wait for it.
      const bool waits = 2 * (num_prompt - 1) >= num_prompt + length - 1;
      const auto once = static_cast<std::uint64_t>(1 + num_prompt - 1 + 8 * length);  // and the other one's row
      if (waits) {
        EXPECT_EQ(num_rows(), once) << num_prompt << " + " << length;
      }
      engine.reset();
      world.reset();
    }
  }
}

TEST_F(CompletionsTest, ACompletionThatComesLaterCopiesTheEndOfThePrompt) {
  EngineLimits limits = small_limits();
  limits.num_blocks = 60;
  start(limits);
  const Request first = completion(18, 0, 1);
  expect_exact(first, run(first));
  EXPECT_EQ(world->num_copied_blocks, 0);
  for (std::int32_t which = 1; which < 4; ++which) {
    const std::uint64_t rows = num_rows();
    const Request other = completion(18, which, 3);
    const auto choice = run(other);
    expect_exact(other, choice);
    EXPECT_EQ(choice.last.usage.cached_tokens, 17);
    EXPECT_EQ(num_rows() - rows, 3u);
    EXPECT_EQ(world->num_copied_blocks, which);
  }
}

// A completion that is preempted before its first block is full loses its copy of the prompt's last block, and gets
// another.
TEST_F(CompletionsTest, ACompletionThatIsPreemptedBehindACopyIsExact) {
  world = std::make_unique<FakeWorld>(small_limits());
  const Request first = completion(3, 0, 1), second = completion(3, 1, 9);
  std::int32_t num_preempted = 0;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    if (view.num_seqs != 2 || view.num_tokens[1] != 11) return;
    const bool runs = view.states[1] == MORTISE_SEQ_RUNNING;
    if (num_preempted == 1 && !runs) return;
    const auto schedule = [&](std::int32_t index) {
      plan.seqs[plan.num_scheduled] = index;
      plan.num_new_tokens[plan.num_scheduled++] = 1;
    };
    schedule(0);
    if (num_preempted == 1) return;
    if (!runs) {
      EXPECT_EQ(view.num_cached[1], 2);
      return schedule(1);
    }
    EXPECT_EQ(view.num_computed[1], 3);
    plan.preempted[plan.num_preempted++] = 1;
    ++num_preempted;
  };
  std::atomic<bool> all_here = true;
  world->before_forward = [&](std::int64_t) {
    while (!all_here) std::this_thread::yield();
  };
  start();
  expect_exact(first, run(first));
  all_here = false;
  Collector busy, copying;
  engine->submit(greedy({90}, 30), busy.sink());
  engine->submit(second, copying.sink());
  all_here = true;
  expect_exact(second, copying.wait().at(0));
  EXPECT_EQ(busy.wait().at(0).ids(), expected({90}, 30));
  EXPECT_EQ(num_preempted, 1);
  EXPECT_EQ(world->num_copied_blocks, 2);
  engine.reset();  // before what the scheduler writes to
}

// Every size of the pool from the least one on, so that what is to be copied is evicted for the copy, too.
TEST_F(CompletionsTest, CompletionsInASmallPoolAreExact) {
  for (std::int32_t num_blocks = 8; num_blocks <= 24; ++num_blocks) {
    for (const std::int32_t budget : {5, 16, 100}) {
      EngineLimits limits = small_limits();
      limits.num_blocks = num_blocks;
      limits.max_batched_tokens = budget;
      start(limits);
      std::vector<Request> requests;
      for (std::int32_t which = 0; which < 12; ++which) {
        requests.push_back(completion(18 + which % 3, which, 1 + which % 9));
      }
      run_together(requests);
      EXPECT_EQ(engine->stats().num_free_blocks + engine->stats().num_cached_free_blocks, num_blocks);
      engine.reset();
      world.reset();
    }
  }
}

TEST_F(PrefixCacheTest, APreemptedSequenceGoesOnFromWhatIsStillCached) {
  world = std::make_unique<FakeWorld>(small_limits());
  std::int64_t plans = 0;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    if (++plans == 4 && view.num_seqs == 2) {
      plan.preempted[plan.num_preempted++] = 1;
      plan.seqs[plan.num_scheduled] = 0;
      plan.num_new_tokens[plan.num_scheduled++] = 1;
    }
  };
  std::atomic<bool> all_here = false;
  world->before_forward = [&](std::int64_t count) {
    while (count == 0 && !all_here) std::this_thread::yield();
  };
  start();
  Collector a, b;
  engine->submit(greedy({50}, 12), a.sink());
  engine->submit(greedy(count(1, 9), 12), b.sink());
  all_here = true;
  EXPECT_EQ(a.wait().at(0).ids(), expected({50}, 12));
  EXPECT_EQ(b.wait().at(0).ids(), expected(count(1, 9), 12));
  EXPECT_EQ(engine->stats().num_preemptions, 1u);
  EXPECT_GE(engine->stats().num_cached_tokens, 8u);
  EXPECT_EQ(b.wait().at(0).last.usage.cached_tokens, 0);  // of the prompt when it came, not of the way back
}

// Admission takes the scores from the cache, and then the sequence may draft; its plan was made before.
TEST_F(PrefixCacheTest, CachedScoresBringNoMoreDraftsThanThePlanHasRoomFor) {
  EngineLimits limits = small_limits();
  limits.max_drafts = 3;
  world = std::make_unique<FakeWorld>(limits);
  std::int32_t lookahead = 0, most = 0;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan&) { lookahead = view.lookahead[0]; };
  world->propose = [&](std::uint64_t, std::int32_t max) {
    EXPECT_LE(max, lookahead);
    most = std::max(most, max);
    return std::vector<std::int32_t>(static_cast<std::size_t>(max), 1);
  };
  start(limits);
  Request request = greedy(count(1, 9), 6);
  request.score_from = 1;
  for (int i = 0; i < 2; ++i) {
    const auto choice = run(request);
    EXPECT_EQ(choice.prompt.size(), 8u);
    EXPECT_EQ(choice.ids(), expected(count(1, 9), 6));
  }
  EXPECT_EQ(most, 3);
  engine.reset();  // before what the proposer writes to
}

// 12 blocks that nobody holds, of 24, and one of its own for each.
TEST_F(PrefixCacheTest, APrefixThatNobodyHoldsIsTakenOnceByAllWhoStartWithIt) {
  for (const bool planned : {false, true}) {  // else first come, first served
    world = std::make_unique<FakeWorld>(small_limits());
    std::atomic<bool> all_here = true, waits = false;
    world->before_forward = [&](std::int64_t) {
      while (!all_here) waits = true, std::this_thread::yield();
    };
    if (planned) {
      world->plan = [](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
        for (std::int32_t i = 0; i < view.num_seqs; ++i) {
          plan.seqs[plan.num_scheduled] = i;
          plan.num_new_tokens[plan.num_scheduled++] =
              std::min(16, view.num_tokens[i] - std::max(view.num_computed[i], view.num_cached[i]));
        }
      };
    }
    start();
    run(greedy(count(1, 48), 1));
    all_here = false;
    const std::int64_t before = world->num_forwards;
    Collector busy;
    engine->submit(greedy({90}, 1), busy.sink());
    while (!waits) std::this_thread::yield();
    std::list<Collector> collectors(4);
    std::vector<std::vector<std::int32_t>> prompts;
    for (Collector& collector : collectors) {
      prompts.push_back(count(1, 48));
      prompts.back().push_back(static_cast<std::int32_t>(60 + prompts.size()));
      engine->submit(greedy(prompts.back(), 1), collector.sink());
    }
    all_here = true;
    std::size_t i = 0;
    for (Collector& collector : collectors) EXPECT_EQ(collector.wait().at(0).ids(), expected(prompts[i++], 1));
    EXPECT_EQ(world->num_forwards - before, 2);
    EXPECT_EQ(engine->stats().num_rejected_plans > 0, !planned);
    engine.reset();
  }
}

TEST_F(PrefixCacheTest, WithoutItNothingIsCachedAndNobodyWaits) {
  EngineLimits limits = small_limits();
  limits.prefix_cache = false;
  start(limits);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(greedy(count(1, 20), 3)).ids(), expected(count(1, 20), 3));
  EXPECT_EQ(num_rows(), 2u * 22u);
  EXPECT_EQ(engine->stats().num_free_blocks, 24);
}

// Followers that no view shows yet are added all the same: a scheduler groups requests by their tokens.
TEST_F(PrefixCacheTest, TheSchedulerIsToldOfEverySequenceWithItsTokens) {
  world = std::make_unique<FakeWorld>(small_limits());
  std::atomic<bool> all_here = false;
  world->before_forward = [&](std::int64_t count) {
    while (count == 0 && !all_here) std::this_thread::yield();
  };
  start();
  Collector busy, first, second, aborted;
  engine->submit(greedy({90}, 1), busy.sink());
  Request request = greedy(count(1, 20), 5);
  engine->submit(request, first.sink());
  request.priority = 3;
  request.group = 17;
  request.sampling.max_tokens = 200;  // cut to what the model's length leaves
  engine->submit(request, second.sink());
  engine->abort(engine->submit(greedy(count(30, 7), 1), aborted.sink()));  // gone before the scheduler hears of it
  all_here = true;
  first.wait();
  second.wait();
  aborted.wait();
  engine.reset();
  std::vector<FakeWorld::Event> added;
  for (const auto& event : world->events) {
    if (event.kind == MORTISE_EVENT_ADDED) {
      added.push_back(event);
    } else {
      EXPECT_TRUE(event.tokens.empty());
    }
  }
  ASSERT_EQ(added.size(), 4u);
  EXPECT_EQ(added[1].tokens, count(1, 20));
  EXPECT_EQ(added[1].max_new_tokens, 5);
  EXPECT_EQ(added[1].priority, 0);
  EXPECT_EQ(added[1].group, 0u);
  EXPECT_EQ(added[2].tokens, count(1, 20));
  EXPECT_EQ(added[2].max_new_tokens, 64 - 20);
  EXPECT_EQ(added[2].priority, 3);
  EXPECT_EQ(added[2].group, 17u);
  EXPECT_EQ(added[3].tokens, count(30, 7));  // its tokens outlive it until they are told
}

// A scheduler that pins the prefix of sequence 1 as soon as it is there.
TEST_F(PrefixCacheTest, APinKeepsAPrefixUntilItsSequenceEnds) {
  world = std::make_unique<FakeWorld>(small_limits());
  std::int64_t plans = 0;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    plan.seqs[plan.num_scheduled] = 0;
    plan.num_new_tokens[plan.num_scheduled++] =
        std::min(16, view.num_tokens[0] - std::max(view.num_computed[0], view.num_cached[0]));
    if (++plans == 3) {
      plan.pins[plan.num_pins] = 0;
      plan.pin_tokens[plan.num_pins++] = 15;
    }
  };
  start();
  run(greedy(count(1, 20), 8));
  const auto resident = std::find_if(world->events.begin(), world->events.end(),
                                     [](const auto& event) { return event.kind == MORTISE_EVENT_PREFIX_RESIDENT; });
  ASSERT_NE(resident, world->events.end());
  EXPECT_EQ(resident->num_tokens, 12);                                                      // whole blocks of 15 tokens
  EXPECT_EQ(engine->stats().num_free_blocks + engine->stats().num_cached_free_blocks, 24);  // less: the pin outlived it
}

TEST_F(PrefixCacheTest, PinsGoWhenARequestCouldNotRunOtherwise) {
  EngineLimits limits = small_limits();
  limits.num_blocks = 16;
  limits.max_num_seqs = 1;
  world = std::make_unique<FakeWorld>(limits);
  std::int64_t plans = 0;
  // The younger sequence fills 12 blocks, is preempted and pinned; then the older one is to run, which needs 15 of 16:
  // what a scheduler can say to that is nothing.
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    const auto schedule = [&](std::int32_t index, std::int32_t num_tokens) {
      plan.seqs[plan.num_scheduled] = index;
      plan.num_new_tokens[plan.num_scheduled++] = num_tokens;
    };
    const bool is_crowded = view.num_seqs == 2 && view.num_tokens[1] == 50;
    if (!is_crowded || ++plans > 5) {
      const std::int32_t start = std::max(view.num_computed[0], view.num_cached[0]);
      return schedule(0, std::min(view.num_tokens[0] - start, view.token_budget));
    }
    if (plans < 4) return schedule(1, 16);
    if (plans == 5) return;
    plan.preempted[plan.num_preempted++] = 1;
    plan.pins[plan.num_pins] = 1;
    plan.pin_tokens[plan.num_pins++] = 48;
    schedule(0, 4);
  };
  std::atomic<bool> all_here = false;
  world->before_forward = [&](std::int64_t count) {
    while (count == 0 && !all_here) std::this_thread::yield();
  };
  start();
  Collector first, older, younger;
  engine->submit(greedy({90}, 1), first.sink());  // keeps the engine busy until the others are there
  engine->submit(greedy(count(60, 56), 4), older.sink());
  engine->submit(greedy(count(1, 50), 4), younger.sink());
  all_here = true;
  EXPECT_EQ(older.wait().at(0).ids(), expected(count(60, 56), 4));
  EXPECT_EQ(younger.wait().at(0).ids(), expected(count(1, 50), 4));
  EXPECT_EQ(std::count_if(world->events.begin(), world->events.end(),
                          [](const auto& event) { return event.kind == MORTISE_EVENT_PREFIX_EVICTED; }),
            1);
  EXPECT_EQ(engine->stats().num_rejected_plans, 0u);
}

// All sequences share most blocks, so that no single preemption frees them, in a pool that holds one at full length.
TEST_F(PrefixCacheTest, SharersInTheSmallestPoolAllEnd) {
  for (std::int32_t num_blocks : {11, 12, 14, 20}) {
    EngineLimits limits = small_limits();
    limits.num_blocks = num_blocks;
    start(limits);
    std::list<Collector> collectors(8);
    std::vector<std::vector<std::int32_t>> prompts;
    for (Collector& collector : collectors) {
      prompts.push_back(count(1, 20));
      prompts.back().push_back(static_cast<std::int32_t>(50 + prompts.size()));
      engine->submit(greedy(prompts.back(), 23), collector.sink());
    }
    std::size_t i = 0;
    for (Collector& collector : collectors) {
      EXPECT_EQ(collector.wait().at(0).ids(), expected(prompts[i++], 23)) << num_blocks << " blocks";
    }
    engine.reset();
    world.reset();
  }
}

}  // namespace
}  // namespace mortise
