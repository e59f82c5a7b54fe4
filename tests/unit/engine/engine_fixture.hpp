// tests/unit/engine/engine_fixture.hpp: an engine over fake parts, and what its requests bring back.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "fake_parts.hpp"

namespace mortise::test {

inline const Tokenizer& tokenizer() {
  static const Tokenizer value = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  return value;
}

// The end token of tests that need one: 'w', which is in no choice of guided_test.cpp.
inline constexpr std::int32_t kEnd = 90;

inline EngineLimits small_limits() {
  EngineLimits limits;
  limits.max_num_seqs = 4;
  limits.max_batched_tokens = 16;
  limits.max_logit_rows = 3;  // smaller than a batch: chunks must not matter
  limits.max_model_len = 64;
  limits.block_size = 4;
  limits.num_blocks = 24;
  return limits;
}

// Collects what a request's sink hears; wait() blocks until every choice has finished.
class Collector {
 public:
  struct Choice {
    std::vector<TokenInfo> prompt, tokens;
    std::string text;
    Delta last;
    std::vector<std::int32_t> ids() const {
      std::vector<std::int32_t> result;
      for (const TokenInfo& info : tokens) result.push_back(info.id);
      return result;
    }
  };

  Sink sink() {
    return [this](const Delta& delta) {
      const std::lock_guard lock(mutex_);
      Choice& choice = choices_[delta.choice];
      EXPECT_EQ(choice.last.finish, FinishReason::kNone) << "news after the finish";
      choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      choice.prompt.insert(choice.prompt.end(), delta.prompt.begin(), delta.prompt.end());
      choice.text += delta.text;
      choice.last = delta;
      if (delta.finish != FinishReason::kNone) ++finished_;
      changed_.notify_all();
    };
  }
  std::map<std::int32_t, Choice> wait(int n = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ == n; });
    return choices_;
  }
  void wait_for_tokens(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return choices_[0].tokens.size() >= n || finished_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int32_t, Choice> choices_;
  int finished_ = 0;
};

inline Request greedy(std::vector<std::int32_t> prompt, std::int32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

inline std::vector<std::int32_t> expected(std::vector<std::int32_t> history, std::int32_t n) {
  std::vector<std::int32_t> out;
  for (std::int32_t i = 0; i < n; ++i) {
    out.push_back(next_token(history));
    history.push_back(out.back());
  }
  return out;
}

class EngineTest : public ::testing::Test {
 protected:
  // The world must be set up before the engine is started, since its thread reads it.
  Engine& start(const EngineLimits& limits = small_limits(), std::vector<std::int32_t> eos = {},
                const EngineHooks& hooks = {}) {
    if (!world) world = std::make_unique<FakeWorld>(limits);
    engine =
        std::make_unique<Engine>(world->parts(), world->limits, ModelInfo{kVocab, std::move(eos)}, tokenizer(), hooks);
    return *engine;
  }
  // Every step takes a moment, so that a request that runs still runs when a swap comes.
  void start_slow(const EngineLimits& limits = small_limits()) {
    world = std::make_unique<FakeWorld>(limits);
    world->before_forward = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    start(limits);
  }
  std::unique_ptr<FakeWorld> world;
  std::unique_ptr<Engine> engine;
};

}  // namespace mortise::test
