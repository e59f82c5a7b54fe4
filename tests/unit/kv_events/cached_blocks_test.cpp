#include "kv_events/cached_blocks.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

using Json = CachedBlocks::Json;

KvChanges stored(std::initializer_list<KvChange> list, std::vector<std::int32_t> tokens) {
  return {list, std::move(tokens)};
}

TEST(CachedBlocks, AChainIsOneEventInTheFormOfVllm) {
  CachedBlocks blocks(8, 2);
  const Json events = blocks.apply(stored({{3, true, kPrefixRoot}, {5, true, 3}, {1, true, 3}}, {1, 2, 3, 4, 7, 8}));
  ASSERT_EQ(events.size(), 2u);  // 3: a chain was cut; 1: a branch was taken for its continuation
  EXPECT_EQ(events[0]["type"], "BlockStored");
  EXPECT_EQ(events[0]["token_ids"], Json({1, 2, 3, 4}));
  EXPECT_EQ(events[0]["block_hashes"].size(), 2u);
  EXPECT_TRUE(events[0]["parent_block_hash"].is_null());
  EXPECT_EQ(events[0]["block_size"], 2);
  EXPECT_EQ(events[0]["medium"], "GPU");
  EXPECT_TRUE(events[0]["lora_id"].is_null() && events[0]["lora_name"].is_null());
  EXPECT_EQ(events[1]["parent_block_hash"], events[0]["block_hashes"][0]);
}

TEST(CachedBlocks, APrefixHasOneNameWhateverBlockHoldsIt) {
  CachedBlocks here(8, 2), there(8, 2);
  const Json first = here.apply(stored({{3, true, kPrefixRoot}, {5, true, 3}}, {1, 2, 3, 4}));
  const Json second = there.apply(stored({{0, true, kPrefixRoot}, {7, true, 0}}, {1, 2, 3, 4}));
  EXPECT_EQ(first[0]["block_hashes"], second[0]["block_hashes"]);
  const Json other = there.apply(stored({{1, true, kPrefixRoot}}, {3, 4}));
  EXPECT_NE(other[0]["block_hashes"][0], first[0]["block_hashes"][1]);  // equal: a block's name leaves its prefix out
}

TEST(CachedBlocks, RemovalsNameWhatWasStored) {
  CachedBlocks blocks(8, 2);
  const Json before = blocks.apply(stored({{3, true, kPrefixRoot}, {5, true, 3}}, {1, 2, 3, 4}));
  const Json after = blocks.apply(stored({{5}, {3}, {3, true, kPrefixRoot}}, {9, 9}));
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0]["type"], "BlockRemoved");
  EXPECT_EQ(after[0]["block_hashes"], Json({before[0]["block_hashes"][1], before[0]["block_hashes"][0]}));
  EXPECT_EQ(after[0]["medium"], "GPU");
}

TEST(CachedBlocks, AllClearsAndTellsParentsBeforeChildren) {
  CachedBlocks blocks(8, 1);
  blocks.apply(stored({{7, true, kPrefixRoot}, {2, true, 7}, {0, true, 2}, {4, true, 7}}, {1, 2, 3, 4}));
  blocks.apply(stored({{4}}, {}));
  const Json all = blocks.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["type"], "AllBlocksCleared");
  EXPECT_EQ(all[1]["token_ids"],
            Json({1, 2, 3}));  // 4: a removed block was sent; another order: a child came before its parent
}

}  // namespace
}  // namespace mortise
