#include "kv/block_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace mortise {
namespace {

TEST(BlockPool, AllocateTakesNothingWhenOneBlockIsMissing) {
  BlockPool pool(/*num_blocks=*/4);
  ASSERT_TRUE(pool.allocate(3).has_value());
  EXPECT_EQ(pool.allocate(2), std::nullopt);
  EXPECT_EQ(pool.num_free(), 1u);  // 0: the failed call kept the block it had found
}

TEST(BlockPool, ASharedBlockIsFreeOnlyWhenItsLastHolderReleasesIt) {
  BlockPool pool(1);
  const BlockId id = pool.allocate(1)->front();
  pool.share(id);
  pool.release(id);
  EXPECT_EQ(pool.num_free(), 0u);
  pool.release(id);
  EXPECT_EQ(pool.num_free(), 1u);
}

TEST(BlockPool, HandsOutEachFreeBlockOnce) {
  std::mt19937 random(1);
  BlockPool pool(50);
  std::multiset<BlockId> held;
  for (int i = 0; i < 2000; ++i) {
    if (random() % 2 == 0) {
      for (BlockId id : pool.allocate(random() % 6).value_or(std::vector<BlockId>{})) {
        EXPECT_EQ(held.count(id), 0u) << "block " << id << " was handed out while held";
        held.insert(id);
      }
    } else if (!held.empty()) {
      const BlockId id = *std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
      if (random() % 3 == 0) {
        pool.share(id);
        held.insert(id);
      } else {
        pool.release(id);
        held.erase(held.find(id));
      }
    }
    EXPECT_EQ(pool.num_free() + std::set<BlockId>(held.begin(), held.end()).size(), pool.num_blocks());
  }
}

}  // namespace
}  // namespace mortise
