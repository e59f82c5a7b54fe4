#include "kv/cached_free_prefixes.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "mortise/plan_blocks.hpp"

namespace mortise {
namespace {

using ::testing::ElementsAre;

class CachedFreePrefixesTest : public ::testing::Test {
 protected:
  // The path of a new block after `parent`, which nobody holds but, if asked for, the test.
  PrefixPath add(const PrefixPath& parent, bool held = false) {
    const std::vector<std::int32_t> tokens = {next_token_++, 0};
    const BlockId block = cache_.allocate(1)->front();
    std::vector<BlockId> path = cache_.tree().blocks(parent);
    cache_.hold(path);
    cache_.publish(parent.last, tokens, block);
    path.push_back(block);
    if (!held) cache_.release(path);
    return cache_.tree().path(block, parent.num_blocks + 1);
  }
  PrefixPath add(PrefixPath parent, int n) {
    while (n-- > 0) parent = add(parent);
    return parent;
  }

  KvCache cache_{200, /*block_size=*/2, true};
  CachedFreePrefixes cached_free_{200};
  std::int32_t next_token_ = 0;
};

TEST_F(CachedFreePrefixesTest, ThoseOfOnePathShareTheShorterOne) {
  const PrefixPath stem = add({}, 3), whole = add(stem, 2), fork = add(stem, 1);
  cached_free_.find(std::vector<BlockId>{whole.last, kPrefixRoot, fork.last, stem.last, whole.last}, cache_);
  EXPECT_THAT(cached_free_.num_cached_free(), ElementsAre(5, 0, 4, 3, 5));
  EXPECT_THAT(cached_free_.with(), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(cached_free_.num_shared(), ElementsAre(0, 0, 3, 3, 5));
}

TEST_F(CachedFreePrefixesTest, OfNestedPathsTheLongestCommonOneCounts) {
  const PrefixPath stem = add({}, 1), a = add(stem, 10), b = add(stem, 10), below_b = add(b, 1);
  cached_free_.find(std::vector<BlockId>{a.last, b.last, b.last, below_b.last}, cache_);
  EXPECT_THAT(cached_free_.num_cached_free(), ElementsAre(11, 11, 11, 12));
  EXPECT_THAT(cached_free_.with(), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(cached_free_.num_shared(), ElementsAre(0, 1, 11, 11));
}

TEST_F(CachedFreePrefixesTest, HeldBlocksAreNobodysShare) {
  const PrefixPath held = add(add({}, true), true), a = add(held, 2), b = add(held, 1);
  cached_free_.find(std::vector<BlockId>{held.last, a.last, b.last}, cache_);
  EXPECT_THAT(cached_free_.num_cached_free(), ElementsAre(0, 2, 1));
  EXPECT_THAT(cached_free_.with(), ElementsAre(0, 1, 2));
}

TEST_F(CachedFreePrefixesTest, EachCallStartsAnew) {
  const PrefixPath path = add({}, 4);
  const std::vector<BlockId> paths = {path.last, path.last};
  cached_free_.find(paths, cache_);
  EXPECT_THAT(cached_free_.num_cached_free(), ElementsAre(4, 4));
  cache_.hold(cache_.tree().blocks(path));
  cached_free_.find(paths, cache_);
  EXPECT_THAT(cached_free_.num_cached_free(), ElementsAre(0, 0));
  EXPECT_THAT(cached_free_.with(), ElementsAre(0, 1));
}

// Random trees against sets, and what schedulers count from the numbers.
TEST_F(CachedFreePrefixesTest, SequencesInAnyOrderTakeTheirBlocksOnce) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<PrefixPath> nodes = {{}};
  while (nodes.size() < 150)
    nodes.push_back(add(nodes[nodes.size() - 1 - below(std::min<std::size_t>(nodes.size(), 12))]));
  for (int round = 0; round < 300; ++round) {
    const std::vector<BlockId> held = cache_.tree().blocks(nodes[below(nodes.size())]);
    cache_.hold(held);
    std::vector<BlockId> paths;
    for (std::size_t i = below(12); i > 0; --i) paths.push_back(nodes[below(nodes.size())].last);
    cached_free_.find(paths, cache_);
    mortise_schedule_view view{};
    view.num_seqs = static_cast<std::int32_t>(paths.size());
    view.num_cached_free_blocks = cached_free_.num_cached_free().data();
    view.cached_free_with = cached_free_.with().data();
    view.cached_free_shared = cached_free_.num_shared().data();
    PlanBlocks blocks(view);
    std::set<BlockId> taken;
    std::vector<std::size_t> order(paths.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      std::int32_t own = 0, left = 0;
      for (BlockId block = paths[i]; block != kPrefixRoot && cache_.is_cached_free(block);
           block = cache_.tree().parent(block)) {
        ++own;
        left += taken.insert(block).second ? 1 : 0;
      }
      const auto index = static_cast<std::int32_t>(i);
      EXPECT_EQ(cached_free_.num_cached_free()[i], own);
      EXPECT_LE(cached_free_.with()[i], index);
      EXPECT_EQ(blocks.cached_free(index), left);
      blocks.admit(index);
      EXPECT_EQ(blocks.cached_free(index), 0);
    }
    cache_.release(held);
  }
}

}  // namespace
}  // namespace mortise
