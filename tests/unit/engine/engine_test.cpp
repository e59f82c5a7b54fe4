// Covers: runtime/engine/{parts,planner,request,row_work,sequence,submit} runtime/execution/{row_scores,score_pass}
#include "engine/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using namespace mortise::test;
using ::testing::HasSubstr;

TEST_F(EngineTest, GeneratesWhatTheModelSays) {
  Collector collector;
  start().submit(greedy({1, 2, 3}, 20), collector.sink());
  const auto choice = collector.wait().at(0);
  EXPECT_EQ(choice.ids(), expected({1, 2, 3}, 20));
  EXPECT_EQ(choice.last.finish, FinishReason::kLength);
  EXPECT_EQ(choice.last.usage.prompt_tokens, 3);
  EXPECT_EQ(choice.last.usage.completion_tokens, 20);
}

// Of a fake model whose forward says how often it was called, padding included.
TEST_F(EngineTest, AnIdleEngineTriesStepsOfAllSizesAndARequestComesBetweenThem) {
  EngineLimits padded = small_limits();
  padded.padding_block = padded.num_blocks - 1;  // the last that a request would get
  world = std::make_unique<FakeWorld>(padded);
  std::atomic<std::int64_t> num_forwards = 0;
  world->before_forward = [&](std::int64_t count) { num_forwards = count + 1; };
  EngineHooks hooks;
  hooks.trials = Trials::kWhenIdle;
  start(padded, {}, hooks);
  Collector collector;
  engine->submit(greedy({1, 2, 3}, 20), collector.sink());
  EXPECT_EQ(collector.wait().at(0).ids(), expected({1, 2, 3}, 20));
  // The largest batch, 20 steps of the request, and sizes 1, 2, 4 .. max_batched_tokens.
  std::int64_t num_sizes = 0;
  for (std::int32_t rows = 1; rows <= padded.max_batched_tokens; rows *= 2) ++num_sizes;
  while (num_forwards < 1 + 20 + num_sizes) std::this_thread::yield();  // for ever: an idle engine tries nothing
}

TEST_F(EngineTest, ManyRequestsInASmallPoolEachGetTheirOwnTokens) {
  std::mt19937 random(7);
  world = std::make_unique<FakeWorld>(small_limits());
  std::atomic<bool> all_here = false;  // requests that are submitted slowly would never meet
  world->before_forward = [&](std::int64_t count) {
    while (count == 0 && !all_here) std::this_thread::yield();
  };
  start();
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<Collector> collectors(40);
  for (Collector& collector : collectors) {
    std::vector<std::int32_t> prompt(1 + random() % 40);
    for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random() % kVocab);
    prompts.push_back(prompt);
    engine->submit(greedy(prompt, 1 + static_cast<std::int32_t>(prompts.size()) % 24), collector.sink());
  }
  all_here = true;
  for (std::size_t i = 0; i < collectors.size(); ++i) {
    const auto choice = collectors[i].wait().at(0);
    EXPECT_EQ(choice.ids(), expected(prompts[i], static_cast<std::int32_t>(choice.tokens.size()))) << "request " << i;
    EXPECT_EQ(choice.tokens.size(), 1 + (i + 1) % 24);
  }
  EXPECT_GT(engine->stats().num_preemptions, 0u) << "the pool was never short: this test shows less than it should";
  engine.reset();
  EXPECT_TRUE(world->scheduler_alive.size() <= 40);
}

TEST_F(EngineTest, NoBlockIsLostWhenRequestsEnd) {
  start();
  std::vector<Collector> collectors(12);
  for (Collector& collector : collectors) engine->submit(greedy({5, 6, 7, 8, 9}, 9), collector.sink());
  for (Collector& collector : collectors) collector.wait();
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, 24);
}

TEST_F(EngineTest, ScoresThePromptInChunksAsInOne) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < 50; ++i) prompt.push_back(i * 7 % kVocab);
  Request request = greedy(prompt, 1);
  request.score_from = 3;
  request.logprobs = 2;
  Collector collector;
  start().submit(request, collector.sink());
  const auto choice = collector.wait().at(0);
  ASSERT_EQ(choice.prompt.size(), 47u);
  for (std::size_t i = 0; i < choice.prompt.size(); ++i) {
    const std::uint64_t hash = hash_history({prompt.begin(), prompt.begin() + 3 + static_cast<std::ptrdiff_t>(i)});
    EXPECT_EQ(choice.prompt[i].id, prompt[i + 3]);
    EXPECT_EQ(choice.prompt[i].logprob, fake_logit(hash, prompt[i + 3]) - 1.0f) << "token " << i + 3;
    ASSERT_EQ(choice.prompt[i].top.size(), 2u);
    EXPECT_EQ(choice.prompt[i].top[1].second, fake_logit(hash, 1) - 1.0f);
  }
  EXPECT_EQ(choice.tokens[0].rank, 1);
}

TEST_F(EngineTest, ScoringAloneNeedsNoGeneratedToken) {
  Request request = greedy({1, 2, 3, 4, 5}, 0);
  request.score_from = 1;
  Collector collector;
  start().submit(request, collector.sink());
  const auto choice = collector.wait().at(0);
  EXPECT_EQ(choice.prompt.size(), 4u);
  EXPECT_TRUE(choice.tokens.empty());
  EXPECT_EQ(choice.last.finish, FinishReason::kLength);
}

TEST_F(EngineTest, ARequestForNothingEndsAtOnce) {
  Collector collector;
  start().submit(greedy({1, 2}, 0), collector.sink());
  EXPECT_EQ(collector.wait().at(0).last.finish, FinishReason::kLength);
}

TEST_F(EngineTest, EndsAtAnEndTokenUnlessToldToIgnoreIt) {
  const std::vector<std::int32_t> all = expected({4, 4}, 12);
  const std::int32_t eos = all[5];
  const auto first = std::find(all.begin(), all.end(), eos) - all.begin();
  start(small_limits(), {eos});
  Collector stopped, ignoring;
  engine->submit(greedy({4, 4}, 12), stopped.sink());
  Request request = greedy({4, 4}, 12);
  request.sampling.ignore_eos = true;
  engine->submit(request, ignoring.sink());
  const auto choice = stopped.wait().at(0);
  EXPECT_EQ(choice.last.finish, FinishReason::kStop);
  EXPECT_EQ(choice.last.stop_token, eos);
  EXPECT_EQ(choice.tokens.size(), static_cast<std::size_t>(first + 1));
  EXPECT_EQ(ignoring.wait().at(0).ids(), all);
}

TEST_F(EngineTest, NoEndTokenComesBeforeMinTokens) {
  const std::int32_t eos = expected({4, 4}, 1)[0];
  start(small_limits(), {eos});
  Request request = greedy({4, 4}, 30);
  request.sampling.min_tokens = 6;
  Collector collector;
  engine->submit(request, collector.sink());
  const auto ids = collector.wait().at(0).ids();
  ASSERT_GE(ids.size(), 6u);
  EXPECT_EQ(std::count(ids.begin(), ids.begin() + 6, eos), 0);
}

TEST_F(EngineTest, ChoicesAreSequencesOfTheirOwn) {
  Request request = greedy({8, 9}, 5);
  request.sampling.n = 3;
  Collector collector;
  start().submit(request, collector.sink());
  const auto choices = collector.wait(3);
  ASSERT_EQ(choices.size(), 3u);
  for (const auto& [index, choice] : choices) EXPECT_EQ(choice.ids(), expected({8, 9}, 5));
}

TEST_F(EngineTest, AbortEndsARequestAndFreesItsBlocks) {
  world = std::make_unique<FakeWorld>(small_limits());
  start();
  Collector collector;
  const RequestId id = engine->submit(greedy({1}, 60), collector.sink());
  collector.wait_for_tokens(2);
  engine->abort(id);
  const FinishReason reason = collector.wait().at(0).last.finish;
  EXPECT_TRUE(reason == FinishReason::kAborted || reason == FinishReason::kLength);
  engine->abort(id);  // again, and an id that never was: ignored
  engine->abort(12345);
}

TEST_F(EngineTest, DraftsOfAnyQualityChangeNoToken) {
  for (int correct_percent : {0, 50, 90, 100}) {
    EngineLimits limits = small_limits();
    limits.max_drafts = 3;
    world = std::make_unique<FakeWorld>(limits);
    std::mt19937 random(11);
    world->propose = [&](std::uint64_t seq, std::int32_t max) {
      std::vector<std::int32_t> history =
          world->observed.size() > seq ? world->observed[seq] : std::vector<std::int32_t>{};
      std::vector<std::int32_t> drafts;
      for (std::int32_t i = 0; i < max; ++i) {
        const bool correct = static_cast<int>(random() % 100) < correct_percent && !history.empty();
        drafts.push_back(correct ? next_token(history) : static_cast<std::int32_t>(random() % kVocab));
        history.push_back(drafts.back());
      }
      return drafts;
    };
    start(limits);
    std::vector<Collector> collectors(6);
    for (std::size_t i = 0; i < collectors.size(); ++i) {
      Request request = greedy({static_cast<std::int32_t>(i), 3, 3}, 21);
      request.sampling.frequency_penalty = i % 2 == 0 ? 0.0f : 1.5f;  // edits depend on the drafts before a row
      request.logprobs = 0;
      engine->submit(request, collectors[i].sink());
    }
    for (std::size_t i = 0; i < collectors.size(); ++i) {
      const auto choice = collectors[i].wait().at(0);
      EXPECT_EQ(choice.tokens.size(), 21u);
      if (i % 2 == 0) {
        EXPECT_EQ(choice.ids(), expected({static_cast<std::int32_t>(i), 3, 3}, 21));
      }
      if (correct_percent == 100) {
        EXPECT_GT(choice.last.usage.accepted_tokens, i % 2 == 0 ? 10 : 0);
      }
    }
    engine.reset();
    world.reset();
  }
}

TEST_F(EngineTest, PenaltiesWithDraftsAreThoseWithout) {
  std::vector<std::vector<std::int32_t>> results;
  for (bool drafts : {false, true}) {
    EngineLimits limits = small_limits();
    limits.max_drafts = 3;
    world = std::make_unique<FakeWorld>(limits);
    if (drafts) {
      world->propose = [&](std::uint64_t seq, std::int32_t max) {
        std::vector<std::int32_t> history =
            world->observed.size() > seq ? world->observed[seq] : std::vector<std::int32_t>{};
        std::vector<std::int32_t> out;
        for (std::int32_t i = 0; i < max && !history.empty(); ++i) {
          out.push_back(next_token(history));
          history.push_back(out.back());
        }
        return out;
      };
    }
    start(limits);
    Request request = greedy({1, 2, 3}, 40);
    request.sampling.presence_penalty = 2.0f;
    request.sampling.repetition_penalty = 1.3f;
    Collector collector;
    engine->submit(request, collector.sink());
    results.push_back(collector.wait().at(0).ids());
    engine.reset();
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(EngineTest, AProposerThatBreaksItsBoundsCostsItsDraftsOnly) {
  EngineLimits limits = small_limits();
  limits.max_drafts = 2;
  world = std::make_unique<FakeWorld>(limits);
  int call = 0;
  world->propose = [&](std::uint64_t, std::int32_t max) {
    return ++call % 2 == 0 ? std::vector<std::int32_t>{-5}
                           : std::vector<std::int32_t>(static_cast<std::size_t>(max) + 7, 1);
  };
  start(limits);
  Collector collector;
  engine->submit(greedy({1, 2}, 10), collector.sink());
  EXPECT_EQ(collector.wait().at(0).ids(), expected({1, 2}, 10));
  engine.reset();
}

TEST_F(EngineTest, ASchedulerMayGrantFewerDraftsThanTheLookahead) {
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

TEST_F(EngineTest, APlanThatGrantsMoreDraftsThanTheLookaheadOrCutsWholeOnesIsRefused) {
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

TEST_F(EngineTest, AProposerHearsOfEveryEnd) {
  EngineLimits limits = small_limits();
  limits.max_drafts = 2;
  world = std::make_unique<FakeWorld>(limits);
  world->propose = [](std::uint64_t, std::int32_t) { return std::vector<std::int32_t>{}; };
  start(limits);
  for (int i = 0; i < 5; ++i) {
    Collector collector;
    engine->submit(greedy({1, 2, i}, 4), collector.sink());
    collector.wait();
  }
  engine.reset();
  EXPECT_EQ(world->proposer_alive.size(), 0u);  // 1: the last one, which no step follows, was not told
}

TEST_F(EngineTest, AMaliciousSchedulerNeverStopsOrChangesAnything) {
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

TEST_F(EngineTest, AFailedForwardEndsItsRequestsWithTheReasonAndTheEngineGoesOn) {
  world = std::make_unique<FakeWorld>(small_limits());
  world->before_forward = [](std::int64_t count) {
    if (count == 3) throw std::runtime_error("the device is on fire");
  };
  start();
  Collector first;
  engine->submit(greedy({1}, 10), first.sink());
  const auto choice = first.wait().at(0);
  EXPECT_EQ(choice.last.finish, FinishReason::kError);
  EXPECT_THAT(choice.last.error, HasSubstr("the device is on fire"));
  engine.reset();
  world->before_forward = nullptr;
  start();
  Collector second;
  engine->submit(greedy({1}, 10), second.sink());
  EXPECT_EQ(second.wait().at(0).ids(), expected({1}, 10));
}

TEST_F(EngineTest, ARowWithoutAnyTokenToDrawEndsItsRequestWithAnError) {
  Request request = greedy({1, 2}, 5);
  for (std::int32_t token = 0; token < kVocab; ++token) request.sampling.stop_token_ids.push_back(token);
  request.sampling.min_tokens = 2;  // bans them all
  Collector collector;
  start().submit(request, collector.sink());
  const auto choice = collector.wait().at(0);
  EXPECT_EQ(choice.last.finish, FinishReason::kError);
  EXPECT_THAT(choice.last.error, HasSubstr("no token can be drawn"));
}

TEST_F(EngineTest, RefusesWhatCanNeverRun) {
  start();
  const auto message = [&](const Request& request) -> std::string {
    try {
      engine->submit(request, [](const Delta&) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message(greedy({}, 1)), HasSubstr("empty"));
  EXPECT_THAT(message(greedy({kVocab}, 1)), HasSubstr("ids are from 0 to 96"));
  EXPECT_THAT(message(greedy(std::vector<std::int32_t>(64, 1), 1)),
              HasSubstr("exceeds the model's length of 64; shorten it"));
  Request request = greedy({1}, 1);
  request.sampling.top_p = 0;
  EXPECT_THAT(message(request), HasSubstr("top_p is 0"));
}

TEST_F(EngineTest, RefusesARequestLargerThanTheWholeCacheWithTheNumbers) {
  EngineLimits limits = small_limits();
  limits.num_blocks = 5;
  start(limits);
  try {
    engine->submit(greedy({1, 2, 3}, 30), [](const Delta&) {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("need 9 KV blocks, but the whole cache has 5"));
  }
}

TEST_F(EngineTest, DestructionAbortsWhatRuns) {
  Collector collector;
  start().submit(greedy({1}, 60), collector.sink());
  engine.reset();
  EXPECT_NE(collector.wait().at(0).last.finish, FinishReason::kNone);
}

}  // namespace
}  // namespace mortise
