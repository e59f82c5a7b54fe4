// A proposer of any quality, or none: its drafts change no token, and it is told of each end.
#include "engine/drafter.hpp"

#include <gtest/gtest.h>

#include <random>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using namespace mortise::test;

class DrafterTest : public EngineTest {};

TEST_F(DrafterTest, DraftsOfAnyQualityChangeNoToken) {
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

TEST_F(DrafterTest, PenaltiesWithDraftsAreThoseWithout) {
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

TEST_F(DrafterTest, AProposerThatBreaksItsBoundsCostsItsDraftsOnly) {
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

TEST_F(DrafterTest, AProposerHearsOfEveryEnd) {
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

}  // namespace
}  // namespace mortise
