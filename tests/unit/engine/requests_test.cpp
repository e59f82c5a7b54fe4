// Requests as a server needs them: bounds on what waits, deadlines, aborts, draining, health.
// Covers: runtime/engine/{arrivals,inbox,live_requests}
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// The error that `call` throws.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error("accepted");
}

class Requests : public EngineTest {
 protected:
  // An engine that stands still in its first forward until `go`.
  Engine& start_held(const EngineLimits& limits = small_limits(), const QueueLimits& queue = {}) {
    world = std::make_unique<FakeWorld>(limits);
    world->before_forward = [this](std::int64_t) {
      held = true;
      while (!go) std::this_thread::yield();
    };
    EngineHooks hooks;
    hooks.queue = queue;
    return start(limits, {}, hooks);
  }
  void wait_until_held() {
    while (!held) std::this_thread::yield();
  }
  std::atomic<bool> held = false, go = false;
};

TEST_F(Requests, FiveThousandAbortsAtOnceEndTheirRequestsAlone) {
  start_held();
  std::atomic<int> num_aborted = 0, num_other = 0;
  std::vector<RequestId> ids;
  for (std::int32_t i = 0; i < 5000; ++i) {
    ids.push_back(engine->submit(greedy({i % kVocab, 5}, 60), [&](const Delta& delta) {
      if (delta.finish != FinishReason::kNone) ++(delta.finish == FinishReason::kAborted ? num_aborted : num_other);
    }));
  }
  Collector kept;
  engine->submit(greedy({1, 2, 3}, 20), kept.sink());
  for (const RequestId id : ids) {
    engine->abort(id);
    engine->abort(id);  // a second abort and an unknown id are ignored
    engine->abort(id + 1'000'000);
  }
  go = true;
  EXPECT_EQ(kept.wait().at(0).ids(), expected({1, 2, 3}, 20));
  ASSERT_TRUE(engine->drain(Clock::time_point::max()));
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, 24);
  engine.reset();
  EXPECT_EQ(num_aborted, 5000);
  EXPECT_EQ(num_other, 0);
}

TEST_F(Requests, AbortEndsAllChoicesOfARequest) {
  start_held();
  Request request = greedy({1}, 60);
  request.sampling.n = 3;
  Collector collector;
  engine->abort(engine->submit(request, collector.sink()));
  go = true;
  for (const auto& [index, choice] : collector.wait(3)) EXPECT_EQ(choice.last.finish, FinishReason::kAborted);
}

TEST_F(Requests, OfAHundredThousandAgainstABoundOfAThousandEachEndsOrIsToldWhenToComeAgain) {
  constexpr std::size_t kBound = 1000;
  start_held(small_limits(), {kBound, SIZE_MAX});
  std::atomic<int> num_accepted = 0, num_refused = 0, num_ended = 0;
  const auto submit = [&](std::int32_t token) {
    try {
      engine->submit(greedy({token % kVocab}, 2), [&](const Delta& delta) {
        if (delta.finish == FinishReason::kNone) return;
        EXPECT_EQ(delta.finish, FinishReason::kLength);
        ++num_ended;
      });
      ++num_accepted;
    } catch (const OverloadedError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOverloaded);
      EXPECT_GE(error.retry_after_s(), 1);
      EXPECT_LE(error.retry_after_s(), StartRate::kMaxSeconds);
      ++num_refused;
    }
  };
  submit(0);
  wait_until_held();  // with one request, which waits until its step is over
  for (std::int32_t i = 1; i < 1010; ++i) submit(i);
  EXPECT_EQ(num_accepted, static_cast<int>(kBound));  // more: the bound is none
  EXPECT_EQ(num_refused, 10);
  go = true;
  std::vector<std::thread> clients;
  for (int client = 0; client < 3; ++client) {
    clients.emplace_back([&] {
      for (std::int32_t i = 0; i < 33'000; ++i) submit(i);
    });
  }
  std::int32_t most_waiting = 0;
  while (num_accepted + num_refused < 100'000) {
    most_waiting = std::max(most_waiting, engine->stats().num_waiting);
    if (num_accepted + num_refused == 1010 + 3 * 33'000 - 10) break;
    std::this_thread::yield();
  }
  for (std::thread& client : clients) client.join();
  EXPECT_LE(most_waiting, static_cast<std::int32_t>(kBound));
  ASSERT_TRUE(engine->drain(Clock::time_point::max()));
  engine.reset();
  EXPECT_EQ(num_accepted + num_refused, 1010 + 3 * 33'000);
  EXPECT_EQ(num_ended, num_accepted);  // less: a request that was accepted is lost
}

TEST_F(Requests, TokensThatWaitAreBoundedButForARequestThatWaitsAlone) {
  start_held(small_limits(), {100, 50});
  const std::vector<std::int32_t> long_prompt(60, 1);
  std::deque<Collector> collectors(4);
  engine->submit(greedy(long_prompt, 2), collectors[0].sink());  // alone, it may
  wait_until_held();
  EXPECT_THAT(error_of([&] { engine->submit(greedy({1}, 2), [](const Delta&) {}); }).what(),
              HasSubstr("1 requests with 60 prompt tokens already wait, but at most 100 with 50 may"));
  go = true;
  collectors[0].wait();
  // It has ended, so it waits no longer; whoever hears of an end finds room.
  for (std::size_t i = 1; i < 4; ++i) {
    engine->submit(greedy(long_prompt, 2), collectors[i].sink());
    collectors[i].wait();
  }
}

TEST_F(Requests, ADeadlineEndsWhatWaitsAndWhatRunsAndNothingElse) {
  world = std::make_unique<FakeWorld>(small_limits());
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(30);
  world->before_forward = [&](std::int64_t count) {
    while (count == 3 && Clock::now() < deadline) std::this_thread::yield();
  };
  start();
  Collector past, running, other;
  Request request = greedy({1, 2}, 60);
  request.deadline = Clock::now() - std::chrono::hours(1);
  engine->submit(request, past.sink());
  request.deadline = deadline;
  engine->submit(request, running.sink());
  request.deadline = Clock::now() + std::chrono::hours(1);
  engine->submit(request, other.sink());
  EXPECT_EQ(other.wait().at(0).ids(), expected({1, 2}, 60));
  for (Collector* collector : {&past, &running}) {
    const auto choice = collector->wait().at(0);
    EXPECT_EQ(choice.last.finish, FinishReason::kError);
    EXPECT_EQ(choice.last.code, ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(choice.last.error, HasSubstr("deadline"));
    EXPECT_LE(choice.tokens.size(), 4u);  // more: it went on after the deadline
    EXPECT_EQ(choice.ids(), expected({1, 2}, static_cast<std::int32_t>(choice.tokens.size())));
  }
  EXPECT_EQ(past.wait().at(0).tokens.size(), 0u);
}

TEST_F(Requests, ADrainFinishesWhatRunsAndAcceptsNothing) {
  start_held();
  Collector collector;
  engine->submit(greedy({1, 2, 3}, 30), collector.sink());
  EXPECT_EQ(engine->health().state, EngineHealth::State::kOk);
  std::thread draining([&] { EXPECT_TRUE(engine->drain(Clock::time_point::max())); });
  while (engine->health().state != EngineHealth::State::kDraining) std::this_thread::yield();
  const Error refused = error_of([&] { engine->submit(greedy({1}, 1), [](const Delta&) {}); });
  EXPECT_EQ(refused.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.what(), HasSubstr("shutting down"));
  go = true;
  draining.join();
  EXPECT_EQ(collector.wait().at(0).ids(), expected({1, 2, 3}, 30));
  EXPECT_TRUE(engine->drain(Clock::now()));  // again: nothing is left
}

TEST_F(Requests, AtItsDeadlineADrainEndsWhatIsLeftWithTheReason) {
  EngineLimits limits = small_limits();
  limits.max_model_len = 4000;
  limits.num_blocks = 2048;
  start_held(limits);
  std::deque<Collector> collectors(6);
  for (Collector& collector : collectors) engine->submit(greedy({1, 2, 3}, 3900), collector.sink());
  wait_until_held();
  std::thread draining([&] { EXPECT_FALSE(engine->drain(Clock::now())); });
  while (engine->health().state != EngineHealth::State::kDraining) std::this_thread::yield();
  go = true;
  draining.join();
  for (Collector& collector : collectors) {
    const Delta last = collector.wait().at(0).last;
    EXPECT_EQ(last.finish, FinishReason::kError);
    EXPECT_EQ(last.code, ErrorCode::kUnavailable);
    EXPECT_THAT(last.error, HasSubstr("shutting down"));
  }
}

TEST_F(Requests, ARequiredPartThatFailedEndsAllRequestsAndRefusesOthersWithTheReason) {
  for (const char* failing : {"device", "model", "attention"}) {
    world = std::make_unique<FakeWorld>(small_limits());
    const Parts parts = world->parts();
    PartHealth& health = failing == std::string("device")  ? *parts.device.health
                         : failing == std::string("model") ? *parts.model.health
                                                           : *parts.attention.health;
    std::atomic<bool> all_here = false;
    std::atomic<std::int64_t> num_forwards = 0;
    world->before_forward = [&](std::int64_t count) {
      num_forwards = count + 1;
      while (!all_here) std::this_thread::yield();
      if (count < 3) return;
      health.fail(std::string(failing) + " 'fake': forward: the bus is gone (INTERNAL)");
      throw Error(health.reason(), ErrorCode::kInternal);
    };
    engine = std::make_unique<Engine>(parts, world->limits, ModelInfo{kVocab, {}}, tokenizer());
    std::deque<Collector> collectors(12);  // more than run at once
    for (Collector& collector : collectors) engine->submit(greedy({1, 2, 3}, 40), collector.sink());
    all_here = true;
    for (Collector& collector : collectors) {
      const Delta last = collector.wait().at(0).last;
      EXPECT_EQ(last.finish, FinishReason::kError);
      EXPECT_THAT(last.error, HasSubstr("the bus is gone"));
    }
    EXPECT_EQ(engine->health().state, EngineHealth::State::kFailed);
    EXPECT_THAT(engine->health().reason, HasSubstr("the bus is gone"));
    const Error refused = error_of([&] { engine->submit(greedy({1}, 1), [](const Delta&) {}); });
    EXPECT_EQ(refused.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(refused.what(), HasSubstr(failing));
    EXPECT_THAT(refused.what(), HasSubstr("the bus is gone"));
    EXPECT_EQ(num_forwards, 4);  // more: the part was called again
    engine.reset();
  }
}

TEST_F(Requests, WhatIsTooLargeSaysSo) {
  start();
  const auto code = [&](const Request& request) {
    return error_of([&] { engine->submit(request, [](const Delta&) {}); }).code();
  };
  EXPECT_EQ(code(greedy(std::vector<std::int32_t>(64, 1), 1)), ErrorCode::kTooLarge);
  EXPECT_EQ(code(greedy({}, 1)), ErrorCode::kInvalid);
}

TEST(StartRate, TellsWhenHalfOfWhatWaitsWillHaveStarted) {
  const Clock::time_point begin{};
  const auto at = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
  StartRate rate;
  EXPECT_EQ(rate.seconds_until_half(1000, at(0)), StartRate::kUnknownSeconds);
  for (int ms = 0; ms < 20'000; ms += 100) rate.add(5, at(ms));  // 50 a second
  EXPECT_NEAR(rate.seconds_until_half(1000, at(20'000)), 10, 1);
  EXPECT_EQ(rate.seconds_until_half(1, at(20'000)), 1);
  EXPECT_EQ(rate.seconds_until_half(1'000'000, at(20'000)), StartRate::kMaxSeconds);
  for (int ms = 30'000; ms < 40'000; ms += 100) rate.add(50, at(ms));  // ten times as fast
  EXPECT_NEAR(rate.seconds_until_half(10'000, at(40'000)), 10, 1);
  // Nothing starts any more: the estimate grows.
  EXPECT_GT(rate.seconds_until_half(10'000, at(60'000)), 20);
}

}  // namespace
}  // namespace mortise::test
