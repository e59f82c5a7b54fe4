// Front ends that fail or stop, and what that costs: their own request.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <stdexcept>
#include <thread>

#include "delivery/mailbox.hpp"
#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

using Readers = EngineTest;

TEST_F(Readers, AFrontEndThatThrowsLosesItsRequestAndNoOther) {
  start();
  std::atomic<int> num_thrown = 0;
  std::deque<Collector> collectors(20);
  for (std::int32_t i = 0; i < 20; ++i) {
    engine->submit(greedy({i}, 40), [&](const Delta&) {
      ++num_thrown;
      throw std::runtime_error("a front end's mistake");
    });
    engine->submit(greedy({i, 1}, 12), collectors[static_cast<std::size_t>(i)].sink());
  }
  for (std::int32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(collectors[static_cast<std::size_t>(i)].wait().at(0).ids(), expected({i, 1}, 12));
  }
  ASSERT_TRUE(engine->drain(std::chrono::steady_clock::time_point::max()));
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, 24);
  engine.reset();
  EXPECT_EQ(num_thrown, 20);  // more: a sink that has thrown is called again
}

TEST_F(Readers, AReaderThatStopsHoldsUpNothingAndFindsItsAnswerInOnePiece) {
  constexpr std::int32_t kTokens = 10'000;
  EngineLimits limits = small_limits();
  limits.max_model_len = kTokens + 1;
  limits.num_blocks = kTokens / limits.block_size + 24;
  start(limits);
  Mailbox mailbox(1);
  engine->submit(greedy({1}, kTokens), mailbox.channel());
  for (std::int32_t i = 0; i < 50; ++i) {  // it reads nothing all that time
    Collector other;
    engine->submit(greedy({i, 2}, 20), other.sink());
    EXPECT_EQ(other.wait().at(0).ids(), expected({i, 2}, 20));
  }
  ASSERT_TRUE(engine->drain(std::chrono::steady_clock::time_point::max()));
  std::vector<Delta> deltas;
  mailbox.wait_for(std::chrono::hours(1), deltas);
  ASSERT_EQ(deltas.size(), 1u);  // more: what waits grows with the number of steps
  EXPECT_EQ(deltas[0].tokens.size(), std::size_t{kTokens});
  EXPECT_LE(deltas[0].tokens.capacity(), std::size_t{2 * kTokens});
  EXPECT_EQ(deltas[0].finish, FinishReason::kLength);
}

TEST_F(Readers, AReaderOfTheEndHearsOnceOfEachChoice) {
  start();
  Request request = greedy({1, 2}, 20);
  request.sampling.n = 3;
  std::mutex mutex;
  std::vector<Delta> deltas;
  engine->submit(
      request,
      [&](Delta&& delta) {
        const std::lock_guard lock(mutex);
        deltas.push_back(std::move(delta));
      },
      News::kAtTheEnd);
  ASSERT_TRUE(engine->drain(std::chrono::steady_clock::time_point::max()));
  engine.reset();
  ASSERT_EQ(deltas.size(), 3u);
  for (const Delta& delta : deltas) {
    ASSERT_EQ(delta.tokens.size(), 20u);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(delta.tokens[i].id, expected({1, 2}, 20)[i]);
    EXPECT_EQ(delta.finish, FinishReason::kLength);
    ASSERT_TRUE(delta.started && delta.first_token);  // although no news came of the first token
    EXPECT_LE(*delta.started, *delta.first_token);
    EXPECT_LE(*delta.first_token, delta.sent);
  }
}

TEST_F(Readers, TheFirstNewsSaysWhenTheChoiceStarted) {
  start();
  std::mutex mutex;
  std::vector<Delta> deltas;
  const auto before = std::chrono::steady_clock::now();
  engine->submit(greedy({1, 2}, 20), [&](Delta&& delta) {
    const std::lock_guard lock(mutex);
    deltas.push_back(std::move(delta));
  });
  ASSERT_TRUE(engine->drain(std::chrono::steady_clock::time_point::max()));
  engine.reset();
  ASSERT_TRUE(deltas.front().started);
  EXPECT_GE(*deltas.front().started, before);
  EXPECT_LE(*deltas.front().started, deltas.front().sent);
  for (std::size_t i = 1; i < deltas.size(); ++i) EXPECT_FALSE(deltas[i].started);
  for (const Delta& delta : deltas) EXPECT_FALSE(delta.first_token);  // the tokens' own times say it
}

TEST_F(Readers, ABlockedSinkIsNoReasonForTheEngineToWait) {
  start();
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  for (int i = 0; i < 8; ++i) {  // more than any pool has threads
    engine->submit(greedy({1}, 30), [released](const Delta&) { released.wait(); });
  }
  ASSERT_TRUE(engine->drain(std::chrono::steady_clock::time_point::max()));  // false or never: it waited for a sink
  EXPECT_EQ(engine->stats().num_generated, 8u * 30);
  release.set_value();
}

TEST_F(Readers, TheEngineEndsAfterEverySinkHasHeardOfItsEnd) {
  std::atomic<int> num_ended = 0;
  start();
  for (std::int32_t i = 0; i < 30; ++i) {
    engine->submit(greedy({i}, 60), [&](const Delta& delta) { num_ended += delta.finish != FinishReason::kNone; });
  }
  engine.reset();
  EXPECT_EQ(num_ended, 30);
}

TEST_F(Readers, ASinkMaySubmitAndIsRefusedWhenTheEngineEnds) {
  std::atomic<int> num_refused = 0, num_submitted = 0;
  std::promise<void> first;
  Engine& running = start();  // engine.reset() clears the pointer before the engine ends
  std::function<void(const Delta&)> again = [&](const Delta& delta) {
    if (delta.finish == FinishReason::kNone) return;
    try {
      running.submit(greedy({2}, 3), again);
      if (++num_submitted == 10) first.set_value();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      ++num_refused;
    }
  };
  running.submit(greedy({1}, 3), again);
  first.get_future().wait();
  engine.reset();
  EXPECT_EQ(num_refused, 1);
}

}  // namespace
}  // namespace mortise::test
