#include "openai/job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

class RequestSeriesTest : public EngineTest {
 protected:
  // Scores token 7 after prompts of `length` tokens, which differ.
  RequestSeries series(std::size_t count, std::size_t length) {
    return {count, [this, length](std::size_t index) {
              ++num_made;
              Request request = greedy(std::vector<std::int32_t>(length, static_cast<std::int32_t>(index % 90)), 0);
              request.score_from = static_cast<std::int32_t>(length);
              request.prompt.push_back(7);
              return request;
            }};
  }
  struct Ended {
    JobResult result;
    std::string error;
  };
  std::future<Ended> run(RequestSeries requests, std::size_t max_open_tokens) {
    auto promise = std::make_shared<std::promise<Ended>>();
    run_job(*engine, std::move(requests), max_open_tokens, [promise](JobResult result, std::optional<Error> error) {
      promise->set_value({std::move(result), error ? error->what() : ""});
    });
    return promise->get_future();
  }
  std::atomic<int> num_made = 0;
};

TEST_F(RequestSeriesTest, ResultsAreInTheOrderOfTheSeriesHoweverManyAreOpen) {
  for (const std::size_t max_open_tokens : {1, 10, 30, 1000}) {
    start();
    const Ended ended = run(series(40, 5), max_open_tokens).get();
    EXPECT_EQ(ended.error, "");
    ASSERT_EQ(ended.result.size(), 40u);
    for (std::size_t i = 0; i < 40; ++i) {
      ASSERT_EQ(ended.result[i].front().prompt.size(), 1u);
      const std::vector<std::int32_t> before(5, static_cast<std::int32_t>(i));
      EXPECT_EQ(ended.result[i].front().prompt[0].logprob, fake_logit(hash_history(before), 7) - 1.0f);
    }
    engine.reset();
    world.reset();
  }
}

TEST_F(RequestSeriesTest, TheEngineHasNoMoreOfItAtATimeThanMayBeOpen) {
  EngineLimits limits = small_limits();
  limits.max_num_seqs = 64;
  limits.num_blocks = 600;
  world = std::make_unique<FakeWorld>(limits);
  std::int32_t most = 0;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    most = std::max(most, view.num_seqs);
    plan.num_scheduled = 1;
    plan.seqs[0] = 0;
    plan.num_new_tokens[0] = 1;
  };
  start(limits);
  run(series(40, 5), 24).get();
  EXPECT_EQ(most, 4);  // of 6 tokens each; more: the engine got the whole series
}

TEST_F(RequestSeriesTest, AFailureEndsItWithoutTheRest) {
  world = std::make_unique<FakeWorld>(small_limits());
  world->before_forward = [](std::int64_t count) {
    if (count == 3) throw std::runtime_error("broken");
  };
  start();
  const Ended ended = run(series(1000, 5), 1).get();
  EXPECT_THAT(ended.error, HasSubstr("broken"));
  EXPECT_LT(num_made, 1010);  // 1000 to be checked; more: those after the failure were run too
}

TEST_F(RequestSeriesTest, AnEngineThatEndsEndsIt) {
  start();
  std::future<Ended> ended = run(series(1000, 5), 1);
  engine.reset();
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(60)), std::future_status::ready);  // else: it waits for ever
}

TEST_F(RequestSeriesTest, WhatTheEngineHasNoRoomForWaitsForTheRequestsBeforeIt) {
  world = std::make_unique<FakeWorld>(small_limits());
  std::atomic<bool> all_here = false;
  world->before_forward = [&](std::int64_t) {
    while (!all_here) std::this_thread::yield();
  };
  EngineHooks hooks;
  hooks.queue.max_requests = 3;
  start(small_limits(), {}, hooks);
  std::future<Ended> ended = run(series(40, 5), 1000);  // the engine stands still: the fourth is refused
  EXPECT_GE(num_made, 4);                               // fewer: the bound was not met
  all_here = true;
  const Ended all = ended.get();
  EXPECT_EQ(all.error, "");
  ASSERT_EQ(all.result.size(), 40u);
  for (std::size_t i = 0; i < 40; ++i) {
    ASSERT_EQ(all.result[i].front().prompt.size(), 1u) << "request " << i << " was left out";
    const std::vector<std::int32_t> before(5, static_cast<std::int32_t>(i));
    EXPECT_EQ(all.result[i].front().prompt[0].logprob, fake_logit(hash_history(before), 7) - 1.0f);
  }
}

TEST_F(RequestSeriesTest, WithoutRoomForASingleOneItIsOverloaded) {
  EngineHooks hooks;
  hooks.queue.max_requests = 0;
  start(small_limits(), {}, hooks);
  EXPECT_THAT(run(series(3, 5), 1000).get().error, HasSubstr("try again in"));
}

TEST_F(RequestSeriesTest, NoneIsDoneAtOnce) {
  start();
  EXPECT_EQ(run(series(0, 5), 1).get().result.size(), 0u);
}

}  // namespace
}  // namespace mortise::test
