// A device that computes behind the host, as a GPU: the text of a step is made and sent while the next step runs.
// Nothing of it is lost, whatever becomes of the next step.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>

#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

class TextsBehind : public EngineTest {
 protected:
  Engine& start_behind() {
    world->shares_memory = false;
    return start();
  }
  void SetUp() override { world = std::make_unique<FakeWorld>(small_limits()); }
};

// The tokens that came are the first ones of the answer, all of them are counted, and their text came too.
void expect_whole(const Collector::Choice& choice, const std::vector<std::int32_t>& prompt) {
  const std::vector<std::int32_t> ids = choice.ids();
  EXPECT_EQ(ids, expected(prompt, static_cast<std::int32_t>(ids.size())));
  EXPECT_EQ(choice.last.usage.completion_tokens, static_cast<std::int32_t>(ids.size()));
  EXPECT_EQ(choice.text, tokenizer().decode(ids, true));
}

TEST_F(TextsBehind, AStepThatFailsLosesNothingOfTheStepBefore) {
  world->forward_status = [](std::int64_t count) { return count == 7 ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_OK; };
  Engine& running = start_behind();
  Collector collector;
  running.submit(greedy({1, 2}, 30), collector.sink());
  const Collector::Choice choice = collector.wait().at(0);
  EXPECT_EQ(choice.last.finish, FinishReason::kError);
  EXPECT_EQ(choice.tokens.size(), 7u);
  expect_whole(choice, {1, 2});
}

TEST_F(TextsBehind, AnAbortLosesNothingOfTheStepBefore) {
  world->before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  Engine& running = start_behind();
  std::deque<Collector> aborted(3);
  Collector other;
  running.submit(greedy({1, 3}, 40), other.sink());
  for (std::int32_t i = 0; i < 3; ++i) {
    Collector& collector = aborted[static_cast<std::size_t>(i)];
    const RequestId id = running.submit(greedy({1, 2, i}, 50), collector.sink());
    collector.wait_for_tokens(static_cast<std::size_t>(1 + 3 * i));
    running.abort(id);
    const Collector::Choice choice = collector.wait().at(0);
    EXPECT_EQ(choice.last.finish, FinishReason::kAborted);
    expect_whole(choice, {1, 2, i});
  }
  const Collector::Choice choice = other.wait().at(0);
  EXPECT_EQ(choice.last.finish, FinishReason::kLength);
  EXPECT_EQ(choice.tokens.size(), 40u);
  expect_whole(choice, {1, 3});
}

TEST_F(TextsBehind, AnEngineThatEndsSendsWhatItHasCommitted) {
  world->before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  Engine& running = start_behind();
  std::deque<Collector> collectors(4);
  for (std::int32_t i = 0; i < 4; ++i) {
    running.submit(greedy({4, i}, 60), collectors[static_cast<std::size_t>(i)].sink());
  }
  collectors[3].wait_for_tokens(5);
  engine.reset();
  for (std::int32_t i = 0; i < 4; ++i) {
    const Collector::Choice choice = collectors[static_cast<std::size_t>(i)].wait().at(0);
    EXPECT_EQ(choice.last.finish, FinishReason::kAborted);
    EXPECT_GE(choice.tokens.size(), 5u);
    expect_whole(choice, {4, i});
  }
}

TEST_F(TextsBehind, AStopStringEndsTheAnswerWhereItEndsOnADeviceThatComputesAtOnce) {
  const auto texts = [&](bool behind) {
    std::vector<std::string> result;
    world = std::make_unique<FakeWorld>(small_limits());
    world->shares_memory = !behind;
    start();
    std::deque<Collector> collectors(12);
    for (std::int32_t i = 0; i < 12; ++i) {
      Request request = greedy({5, i}, 40);
      const std::string whole = tokenizer().decode(expected({5, i}, 40), true);
      request.sampling.stop = {whole.substr(static_cast<std::size_t>(2 * i), 2), "no text of this model"};
      engine->submit(request, collectors[static_cast<std::size_t>(i)].sink());
    }
    for (Collector& collector : collectors) {
      const Collector::Choice choice = collector.wait().at(0);
      result.push_back(std::string(to_string(choice.last.finish)) + " " + std::to_string(choice.tokens.size()) + " " +
                       choice.text);
    }
    engine.reset();
    return result;
  };
  const std::vector<std::string> behind = texts(true);
  EXPECT_EQ(behind, texts(false));
  EXPECT_TRUE(std::ranges::all_of(behind, [](const std::string& text) { return text.starts_with("stop"); }));
}

}  // namespace
}  // namespace mortise::test
