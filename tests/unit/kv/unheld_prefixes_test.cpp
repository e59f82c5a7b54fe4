#include "kv/unheld_prefixes.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

namespace mortise {
namespace {

using ::testing::ElementsAre;

constexpr std::int32_t kBlockSize = 2;

class UnheldPrefixesTest : public ::testing::Test {
 protected:
  // The path of a new block behind `parent`, which nobody holds but, if asked for, the test.
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

  KvCache cache_{200, kBlockSize, true};
  UnheldPrefixes unheld_{200};
  std::int32_t next_token_ = 0;
};

TEST_F(UnheldPrefixesTest, ThoseOfOnePathShareTheShorterOne) {
  const PrefixPath stem = add({}, 3), whole = add(stem, 2), fork = add(stem, 1);
  unheld_.find(std::vector<PrefixPath>{whole, {}, fork, stem, whole}, cache_);
  EXPECT_THAT(unheld_.num_unheld(), ElementsAre(5, 0, 4, 3, 5));
  EXPECT_THAT(unheld_.first(), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(unheld_.num_shared(), ElementsAre(5, 0, 3, 3, 5));
}

TEST_F(UnheldPrefixesTest, HeldBlocksAreNobodysShare) {
  const PrefixPath held = add(add({}, true), true), a = add(held, 2), b = add(held, 1);
  unheld_.find(std::vector<PrefixPath>{held, a, b}, cache_);
  EXPECT_THAT(unheld_.num_unheld(), ElementsAre(0, 2, 1));
  EXPECT_THAT(unheld_.first(), ElementsAre(0, 1, 2));
}

TEST_F(UnheldPrefixesTest, EachCallStartsAnew) {
  const PrefixPath path = add({}, 4);
  for (int i = 0; i < 2; ++i) {
    unheld_.find(std::vector<PrefixPath>{path}, cache_);
    EXPECT_THAT(unheld_.num_unheld(), ElementsAre(4));
    EXPECT_THAT(unheld_.first(), ElementsAre(0));
  }
}

// Random trees against sets: what the numbers say of any choice of sequences is never less than what it takes.
TEST_F(UnheldPrefixesTest, NoChoiceTakesMoreThanIsSaid) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<PrefixPath> nodes = {{}};
  while (nodes.size() < 150) nodes.push_back(add(nodes[below(nodes.size())]));
  for (int round = 0; round < 300; ++round) {
    const std::vector<BlockId> held = cache_.tree().blocks(nodes[below(nodes.size())]);
    cache_.hold(held);
    std::vector<PrefixPath> starts;
    for (std::size_t i = below(12); i > 0; --i) starts.push_back(nodes[below(nodes.size())]);
    unheld_.find(starts, cache_);
    std::vector<std::int32_t> paid(starts.size(), 0);  // by first()
    std::set<BlockId> taken;
    std::int32_t said = 0;
    std::vector<std::size_t> order(starts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      std::int32_t own = 0;
      for (const BlockId block : cache_.tree().blocks(starts[i])) {
        if (!cache_.is_cached(block)) continue;
        taken.insert(block);
        ++own;
      }
      EXPECT_EQ(unheld_.num_unheld()[i], own);
      EXPECT_LE(unheld_.first()[i], static_cast<std::int32_t>(i));
      std::int32_t& paid_before = paid[static_cast<std::size_t>(unheld_.first()[i])];
      said += own - std::min(unheld_.num_shared()[i], paid_before);
      paid_before = std::max(paid_before, unheld_.num_shared()[i]);
      EXPECT_GE(said, static_cast<std::int32_t>(taken.size()));
    }
    cache_.release(held);
  }
}

}  // namespace
}  // namespace mortise
