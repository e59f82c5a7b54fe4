// Draft trees: each path is run as a fork of its sequence, and the one of which most stands is gone on with. The world
// reads histories through block tables, so a fork in wrong blocks, or a block that is not copied, changes tokens.
#include "engine/draft_tree.hpp"

#include <gmock/gmock.h>

#include <random>

#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::ElementsAre;
using Path = std::vector<std::int32_t>;

TEST(DraftTree, PathsGoFromTheRootToEachLeaf) {
  std::string why;
  //  7 - 8 - 9
  //    \\ 5
  //  4
  EXPECT_THAT(paths_of(Path{7, 8, 4, 9, 5}, Path{-1, 0, -1, 1, 0}, 3, why),
              ElementsAre(Path{4}, Path{7, 8, 9}, Path{7, 5}));
  EXPECT_THAT(paths_of(Path{7, 8, 9}, Path{-1, 0, 1}, 3, why), ElementsAre(Path{7, 8, 9}));
  EXPECT_TRUE(paths_of({}, {}, 3, why).empty());
  EXPECT_EQ(why, "");
}

TEST(DraftTree, ParentsComeBeforeTheirChildren) {
  for (const std::int32_t parent : {1, 2, -2}) {
    std::string why;
    EXPECT_TRUE(paths_of(Path{7, 8}, Path{-1, parent}, 3, why).empty());
    EXPECT_EQ(why, "draft 1 has the parent " + std::to_string(parent) + "; it must come before it, or be -1");
  }
}

TEST(DraftTree, APathThatIsTooLongIsTold) {
  std::string why;
  EXPECT_TRUE(paths_of(Path{7, 8, 9}, Path{-1, 0, 1}, 2, why).empty());
  EXPECT_EQ(why, "a path of 3 drafts, but at most 2 were asked for");
}

class DraftTreeTest : public EngineTest {
 protected:
  // A tree of `num_paths` paths that differ in their first tokens; path number `correct` is what the model says.
  FakeWorld::Tree tree(std::uint64_t seq, std::int32_t depth, std::int32_t num_paths, std::int32_t correct) {
    FakeWorld::Tree result;
    Path history = world->observed.size() > seq ? world->observed[seq] : Path{};
    if (history.empty()) return result;
    const std::int32_t right = next_token(history);
    for (std::int32_t path = 0; path < num_paths; ++path) {
      std::int32_t parent = -1;
      Path known = history;
      for (std::int32_t i = 0; i < depth; ++i) {
        const std::int32_t wrong = (right + 1 + path + i) % kVocab;
        known.push_back(path == correct ? next_token(known) : wrong);
        result.tokens.push_back(known.back());
        result.parents.push_back(parent);
        parent = static_cast<std::int32_t>(result.tokens.size()) - 1;
      }
    }
    return result;
  }
  EngineLimits tree_limits() {
    EngineLimits limits = small_limits();
    limits.max_drafts = 3;
    limits.max_paths = 3;
    limits.max_batched_tokens = 64;
    return limits;
  }
};

TEST_F(DraftTreeTest, ThePathThatIsRightIsFoundWhereverItIs) {
  for (const bool expansion : {false, true}) {
    for (std::int32_t correct = 0; correct < 4; ++correct) {  // 3: none is
      EngineLimits limits = tree_limits();
      limits.batch_expansion = expansion;
      limits.num_blocks = 60;
      world = std::make_unique<FakeWorld>(limits);
      world->propose_tree = [&](std::uint64_t seq, std::int32_t max) { return tree(seq, max, 3, correct); };
      start(limits);
      std::vector<Collector> collectors(4);
      for (std::size_t i = 0; i < collectors.size(); ++i) {
        engine->submit(greedy({static_cast<std::int32_t>(i), 3, 3}, 41), collectors[i].sink());
      }
      for (std::size_t i = 0; i < collectors.size(); ++i) {
        const auto choice = collectors[i].wait().at(0);
        EXPECT_EQ(choice.ids(), expected({static_cast<std::int32_t>(i), 3, 3}, 41));
        // 40 tokens after the first, in steps of three drafts and one more.
        EXPECT_EQ(choice.last.usage.accepted_tokens, correct < 3 ? 30 : 0) << "path " << correct;
        // More: drafts of the paths that lost are counted as if they could have been accepted, too.
        if (correct < 3) {
          EXPECT_EQ(choice.last.usage.draft_tokens, 30);
        }
      }
      EXPECT_GT(world->num_copied_blocks, 0);
      const EngineStats stats = engine->stats();
      EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, limits.num_blocks);
      EXPECT_EQ(stats.num_proposer_failures, 0u);
      EXPECT_EQ(stats.num_drafts, stats.speculation.proposers.front().num_drafts);
      EXPECT_EQ(stats.num_accepted, stats.speculation.proposers.front().num_accepted);
      engine.reset();
      world.reset();
    }
  }
}

TEST_F(DraftTreeTest, InPoolsAndBatchesOfAnySizeNoTokenChanges) {
  for (std::uint32_t mix = 0; mix < 40; ++mix) {
    std::mt19937 random(mix);
    EngineLimits limits = tree_limits();
    limits.max_batched_tokens = 5 + static_cast<std::int32_t>(random() % 40);
    limits.num_blocks = 12 + static_cast<std::int32_t>(random() % 20);
    limits.batch_expansion = random() % 2 == 0;
    limits.prefix_cache = random() % 2 == 0;
    world = std::make_unique<FakeWorld>(limits);
    world->propose_tree = [&](std::uint64_t seq, std::int32_t max) {
      return tree(seq, static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(max + 1)), 3,
                  static_cast<std::int32_t>(random() % 4));
    };
    start(limits);
    std::vector<Collector> collectors(6);
    for (std::size_t i = 0; i < collectors.size(); ++i) {
      Request request = greedy({static_cast<std::int32_t>(i % 3), 3, 3, 5, 6}, 25);
      if (i % 2 == 1) request.sampling.frequency_penalty = 1.5f;  // edits depend on the drafts before a row
      engine->submit(request, collectors[i].sink());
    }
    std::vector<Path> got;
    for (Collector& collector : collectors) got.push_back(collector.wait().at(0).ids());
    for (std::size_t i = 0; i < got.size(); i += 2) {
      EXPECT_EQ(got[i], expected({static_cast<std::int32_t>(i % 3), 3, 3, 5, 6}, 25)) << "mix " << mix;
    }
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, limits.num_blocks) << "mix " << mix;
    engine.reset();
    world.reset();
    // The same with penalties and no drafts at all.
    start(limits);
    for (std::size_t i = 1; i < got.size(); i += 2) {
      Request request = greedy({static_cast<std::int32_t>(i % 3), 3, 3, 5, 6}, 25);
      request.sampling.frequency_penalty = 1.5f;
      Collector collector;
      engine->submit(request, collector.sink());
      EXPECT_EQ(got[i], collector.wait().at(0).ids()) << "mix " << mix;
    }
    engine.reset();
    world.reset();
  }
}

TEST_F(DraftTreeTest, WhatIsNoTreeCostsTheDraftsAlone) {
  for (const Path& parents : {Path{0, -1}, Path{-1, 5}, Path{-1, -7}}) {
    const EngineLimits limits = tree_limits();
    world = std::make_unique<FakeWorld>(limits);
    world->propose_tree = [&](std::uint64_t, std::int32_t) { return FakeWorld::Tree{{1, 2}, parents}; };
    Collector collector;
    start(limits).submit(greedy({5, 3, 3}, 12), collector.sink());
    EXPECT_EQ(collector.wait().at(0).ids(), expected({5, 3, 3}, 12));
    EXPECT_GT(engine->stats().num_proposer_failures, 0u);
    EXPECT_EQ(engine->stats().num_drafts, 0u);
    engine.reset();
    world.reset();
  }
}

}  // namespace
}  // namespace mortise::test
