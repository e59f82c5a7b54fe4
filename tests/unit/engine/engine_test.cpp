// Covers: runtime/engine/{parts,request,row_work,sequence} runtime/execution/{row_scores,score_pass}
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
  hooks.warm_up = WarmUp::kWhenIdle;
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

TEST_F(EngineTest, DestructionAbortsWhatRuns) {
  Collector collector;
  start().submit(greedy({1}, 60), collector.sink());
  engine.reset();
  EXPECT_NE(collector.wait().at(0).last.finish, FinishReason::kNone);
}

}  // namespace
}  // namespace mortise
