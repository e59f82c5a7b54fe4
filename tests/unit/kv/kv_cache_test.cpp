#include "kv/kv_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

namespace mortise {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::int32_t kBlockSize = 2;

// A sequence as the engine runs one: takes what is cached, fills the rest, publishes it.
struct Holder {
  Holder(KvCache& cache, Tokens tokens) : cache(&cache), tokens(std::move(tokens)) {}

  bool run() {
    blocks = cache->tree().blocks(cache->tree().match(tokens));
    cache->hold(blocks, kv.get());
    num_cached = blocks.size();
    const auto fresh = cache->allocate(tokens.size() / kBlockSize - blocks.size(), kv.get());
    if (!fresh) return false;
    blocks.insert(blocks.end(), fresh->begin(), fresh->end());
    publish();
    return true;
  }
  void publish() {
    for (std::size_t i = num_cached; i < blocks.size(); ++i) {
      const auto node = cache->publish(i == 0 ? kPrefixRoot : blocks[i - 1],
                                       std::span(tokens).subspan(i * kBlockSize, kBlockSize), blocks[i], kv.get());
      if (!node) return;
      blocks[i] = *node;
    }
  }
  void end() {
    cache->release(blocks, kv.get());
    blocks.clear();
  }

  KvCache* cache;
  Tokens tokens;
  std::vector<BlockId> blocks;
  std::size_t num_cached = 0;
  std::shared_ptr<KvHolder> kv = std::make_shared<KvHolder>();  // stays where it is when a Holder is moved
};

Tokens count(std::int32_t first, int blocks) {
  Tokens tokens;
  for (int i = 0; i < blocks * kBlockSize; ++i) tokens.push_back(first + i);
  return tokens;
}

TEST(KvCache, ReleasedBlocksStayCachedAndServeTheNext) {
  KvCache cache(8, kBlockSize, true);
  Holder first(cache, count(0, 3));
  ASSERT_TRUE(first.run());
  EXPECT_EQ(cache.num_cached_free(), 0u);  // held blocks are not cached free
  const std::vector<BlockId> blocks = first.blocks;
  first.end();
  EXPECT_EQ(cache.num_cached_free(), 3u);
  EXPECT_EQ(cache.num_free(), 5u);
  Holder second(cache, count(0, 4));
  ASSERT_TRUE(second.run());
  EXPECT_EQ(second.num_cached, 3u);
  EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), second.blocks.begin()));
  EXPECT_EQ(cache.num_cached_free(), 0u);
}

TEST(KvCache, FreeBlocksAreUsedBeforeCachedOnesAreEvicted) {
  KvCache cache(4, kBlockSize, true);
  Holder old(cache, count(0, 2));
  ASSERT_TRUE(old.run());
  old.end();
  Holder other(cache, count(100, 2));
  ASSERT_TRUE(other.run());
  EXPECT_EQ(cache.num_evictions(), 0u);
  EXPECT_EQ(cache.num_cached_free(), 2u);
}

TEST(KvCache, EvictsTheLeastRecentlyUsedLeafAndNeverAHeldBlock) {
  KvCache cache(6, kBlockSize, true);
  Holder a(cache, count(0, 2)), b(cache, count(100, 2)), held(cache, count(200, 2));
  for (Holder* holder : {&a, &b, &held}) ASSERT_TRUE(holder->run());
  a.end();
  b.end();
  Holder again(cache, count(0, 2));
  ASSERT_TRUE(again.run());
  again.end();  // a's blocks are younger than b's now
  const auto taken = cache.allocate(2);
  ASSERT_TRUE(taken);
  EXPECT_EQ(cache.tree().match(count(0, 2)).num_blocks, 2);
  EXPECT_EQ(cache.tree().match(count(100, 2)).num_blocks, 0);  // 2: the younger prefix went first
  EXPECT_EQ(cache.tree().match(count(200, 2)).num_blocks, 2);
  EXPECT_EQ(cache.allocate(3), std::nullopt);  // two are cached, the rest is held
  EXPECT_EQ(cache.num_cached_free(), 2u);      // 0: the failed call evicted what it had found
}

TEST(KvCache, AParentGoesAfterItsChildren) {
  KvCache cache(4, kBlockSize, true);
  Holder a(cache, count(0, 4));
  ASSERT_TRUE(a.run());
  a.end();
  ASSERT_TRUE(cache.allocate(1));
  EXPECT_EQ(cache.tree().match(count(0, 4)).num_blocks, 3);
  ASSERT_TRUE(cache.allocate(2));
  EXPECT_EQ(cache.tree().match(count(0, 4)).num_blocks, 1);
}

TEST(KvCache, TwoThatFilledOneBlockShareItAfterwards) {
  KvCache cache(8, kBlockSize, true);
  Holder a(cache, count(0, 2)), b(cache, count(0, 2));
  a.blocks = *cache.allocate(2, a.kv.get());
  b.blocks = *cache.allocate(2, b.kv.get());
  a.publish();
  b.publish();
  EXPECT_EQ(a.blocks, b.blocks);
  EXPECT_EQ(cache.num_free(), 6u);  // 4: the second copy was kept
  a.end();
  EXPECT_EQ(cache.num_cached_free(), 0u);  // 2: what b holds was counted as cached free
  b.end();
  EXPECT_EQ(cache.num_cached_free(), 2u);
}

TEST(KvCache, ABlockThatOnlyTheTreeSharesHasOneHolder) {
  KvCache cache(4, kBlockSize, true);
  Holder a(cache, count(0, 1));
  ASSERT_TRUE(a.run());
  EXPECT_EQ(cache.num_holders(a.blocks[0]), 1u);
  EXPECT_EQ(a.kv->num_sole, 1);
  Holder b(cache, count(0, 1));
  ASSERT_TRUE(b.run());
  EXPECT_EQ(cache.num_holders(a.blocks[0]), 2u);
  EXPECT_EQ(a.kv->num_sole, 0);
  EXPECT_EQ(b.kv->num_sole, 0);
  a.end();
  EXPECT_EQ(b.kv->num_sole, 1);  // 0: a preemption of b would be taken to free nothing
}

TEST(KvCache, WithoutPrefixCacheNothingIsKept) {
  KvCache cache(4, kBlockSize, false);
  Holder a(cache, count(0, 2));
  ASSERT_TRUE(a.run());
  a.end();
  EXPECT_EQ(cache.num_free(), 4u);
  EXPECT_EQ(cache.tree().size(), 0u);
}

TEST(KvCache, ATailIsKeptUntilItsMemoryIsWanted) {
  KvCache cache(4, kBlockSize, true);
  Holder holder(cache, count(0, 2));
  ASSERT_TRUE(holder.run());
  const auto more = cache.allocate(1, holder.kv.get());
  ASSERT_TRUE(more);
  cache.keep_partial_block(holder.blocks.back(), Tokens{9}, more->front());
  holder.blocks.push_back(more->front());
  EXPECT_EQ(cache.num_cached_free(), 0u);  // its owner still holds it
  holder.end();
  EXPECT_EQ(cache.num_cached_free(), 3u);
  EXPECT_EQ(cache.tree().closest_child(cache.tree().match(count(0, 2)).last, Tokens{9}).block, more->front());
  ASSERT_TRUE(cache.allocate(2));  // the free one and the deepest leaf
  EXPECT_EQ(cache.tree().closest_child(cache.tree().match(count(0, 2)).last, Tokens{9}).num_tokens, 0);
  EXPECT_EQ(cache.num_cached_free(), 2u);
  EXPECT_TRUE(cache.allocate(2));
}

TEST(KvCache, WithoutPrefixCacheNoTailIsKept) {
  KvCache cache(4, kBlockSize, false);
  const auto blocks = cache.allocate(1);
  cache.keep_partial_block(kPrefixRoot, Tokens{9}, blocks->front());
  cache.release(*blocks);
  EXPECT_EQ(cache.num_free(), 4u);
}

// Random holders over few tokens, so that prefixes meet often, in a pool that is always short.
TEST(KvCache, NoBlockIsLostOrGivenTwiceWhateverComes) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    KvCache cache(24, kBlockSize, true);
    std::vector<Holder> holders;
    for (int step = 0; step < 2000; ++step) {
      if (holders.size() < 6 && random() % 2 == 0) {
        Tokens tokens;
        for (std::size_t n = 2 * (1 + random() % 8); n > 0; --n)
          tokens.push_back(static_cast<std::int32_t>(random() % 2));
        Holder holder(cache, tokens);
        if (holder.run()) {
          holders.push_back(holder);
        } else {
          holder.end();
        }
      } else if (!holders.empty()) {
        std::swap(holders[random() % holders.size()], holders.back());
        Holder& ending = holders.back();
        if (const auto tail = random() % 2 == 0 ? cache.allocate(1) : std::nullopt) {
          cache.set_holder(tail->front(), *ending.kv);
          cache.keep_partial_block(ending.blocks.back(), Tokens{static_cast<std::int32_t>(random() % 2)},
                                   tail->front());
          ending.blocks.push_back(tail->front());
        }
        holders.back().end();
        holders.pop_back();
      }
      std::vector<int> held(cache.num_blocks(), 0);
      for (const Holder& holder : holders) {
        for (const BlockId block : holder.blocks) held[static_cast<std::size_t>(block)] = 1;
        ASSERT_EQ(holder.kv->num_sole,
                  std::ranges::count_if(holder.blocks, [&](BlockId id) { return cache.num_holders(id) == 1; }))
            << "seed " << seed << ", step " << step;
        ASSERT_EQ(cache.tree().match(holder.tokens).num_blocks, static_cast<std::int32_t>(holder.blocks.size()));
      }
      const auto num_held = static_cast<std::size_t>(std::count(held.begin(), held.end(), 1));
      ASSERT_EQ(cache.num_free() + cache.num_cached_free() + num_held, cache.num_blocks()) << "seed " << seed;
    }
    for (Holder& holder : holders) holder.end();
    EXPECT_TRUE(cache.allocate(24)) << "seed " << seed;  // all cached ones can be evicted
    EXPECT_EQ(cache.tree().size(), 0u);
  }
}

}  // namespace
}  // namespace mortise
