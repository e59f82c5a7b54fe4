#include "kv_events/change_log.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <random>

namespace mortise {
namespace {

using Tokens = std::vector<std::int32_t>;

bool is_ready(const KvChangeLog& log) {
  pollfd ready{log.ready_fd(), POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

// What a reader knows: the tokens and the parent of each block.
struct Reader {
  struct Node {
    BlockId parent;
    Tokens tokens;
    bool operator==(const Node&) const = default;
  };
  std::map<BlockId, Node> blocks;

  void read(const KvChanges& changes, std::size_t block_size) {
    auto tokens = changes.tokens.begin();
    for (const KvChange& change : changes.list) {
      if (change.stored) {
        const auto end = tokens + static_cast<std::ptrdiff_t>(block_size);
        EXPECT_TRUE(change.parent == kPrefixRoot || blocks.contains(change.parent));
        EXPECT_TRUE(blocks.emplace(change.block, Node{change.parent, Tokens(tokens, end)}).second);
        tokens = end;
      } else {
        EXPECT_EQ(blocks.erase(change.block), 1u);  // 0: a removal of a block that the reader never heard of
      }
    }
    EXPECT_EQ(tokens, changes.tokens.end());
  }
};

TEST(KvChangeLog, HandsOverWhatCameInItsOrder) {
  KvChangeLog log(8, 2);
  EXPECT_FALSE(is_ready(log));
  log.stored(kPrefixRoot, Tokens{1, 2}, 5);
  log.stored(5, Tokens{3, 4}, 0);
  log.removed(0);
  EXPECT_TRUE(is_ready(log));
  KvChanges changes;
  log.take(changes);
  EXPECT_FALSE(is_ready(log));
  ASSERT_EQ(changes.list.size(), 3u);
  EXPECT_EQ(changes.list[1].block, 0);
  EXPECT_EQ(changes.list[1].parent, 5);
  EXPECT_FALSE(changes.list[2].stored);
  EXPECT_EQ(changes.tokens, (Tokens{1, 2, 3, 4}));
  log.take(changes);
  EXPECT_TRUE(changes.list.empty());  // 3: what was taken came again
}

TEST(KvChangeLog, AReaderWhoIsLateLearnsTheTruthFromBoundedMemory) {
  constexpr std::size_t kBlocks = 16;
  std::mt19937 random(7);
  KvChangeLog log(kBlocks, 1);
  Reader truth, late;
  KvChanges changes;
  std::size_t most = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto block = static_cast<BlockId>(random() % kBlocks);
    const auto is_parent = [&](const auto& entry) { return entry.second.parent == block; };
    if (!truth.blocks.contains(block)) {
      BlockId parent = static_cast<BlockId>(random() % kBlocks);
      if (!truth.blocks.contains(parent)) parent = kPrefixRoot;
      truth.blocks[block] = {parent, {i}};
      log.stored(parent, Tokens{i}, block);
    } else if (std::none_of(truth.blocks.begin(), truth.blocks.end(), is_parent)) {
      truth.blocks.erase(block);
      log.removed(block);
    }
    if (random() % 4000 != 0) continue;
    log.take(changes);
    most = std::max(most, changes.list.size());
    late.read(changes, 1);
    EXPECT_EQ(late.blocks, truth.blocks);  // else: compaction lost a change, or put two in the wrong order
  }
  log.take(changes);
  late.read(changes, 1);
  EXPECT_EQ(late.blocks, truth.blocks);
  EXPECT_GT(most, 2 * kBlocks);  // else: nothing here was late enough to be compacted
  EXPECT_LE(most, 1025u);        // more: memory grows as long as nobody reads
}

}  // namespace
}  // namespace mortise
