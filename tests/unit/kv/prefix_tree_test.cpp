// Covers: runtime/kv/kv_observer
#include "kv/prefix_tree.hpp"

#include <gtest/gtest.h>

#include <string>

namespace mortise {
namespace {

using Tokens = std::vector<std::int32_t>;

// Blocks of two tokens: 1 2 | 3 4 | 5 6 in blocks 0, 1, 2 and a branch 1 2 | 7 8 in block 3.
struct Fixture : ::testing::Test {
  Fixture() : tree(8, 2) {
    EXPECT_TRUE(tree.insert(kPrefixRoot, Tokens{1, 2}, 0));
    EXPECT_TRUE(tree.insert(0, Tokens{3, 4}, 1));
    EXPECT_TRUE(tree.insert(1, Tokens{5, 6}, 2));
    EXPECT_TRUE(tree.insert(0, Tokens{7, 8}, 3));
  }
  PrefixTree tree;
};
using PrefixTreeTest = Fixture;

TEST_F(PrefixTreeTest, MatchesWholeBlocksOnly) {
  EXPECT_EQ(tree.match(Tokens{1, 2, 3, 4, 5}).num_blocks, 2);  // 3: half a block was taken for a whole one
  EXPECT_EQ(tree.blocks(tree.match(Tokens{1, 2, 3, 4, 5, 6, 9, 9})), (std::vector<BlockId>{0, 1, 2}));
  EXPECT_EQ(tree.blocks(tree.match(Tokens{1, 2, 7, 8})), (std::vector<BlockId>{0, 3}));
  EXPECT_EQ(tree.match(Tokens{1}).num_blocks, 0);
  EXPECT_EQ(tree.match(Tokens{3, 4}).num_blocks, 0);  // 1: a block was found without its prefix
}

TEST_F(PrefixTreeTest, EqualTokensAfterOtherPrefixesAreOtherNodes) {
  ASSERT_TRUE(tree.insert(3, Tokens{5, 6}, 4));
  EXPECT_EQ(tree.blocks(tree.match(Tokens{1, 2, 7, 8, 5, 6})), (std::vector<BlockId>{0, 3, 4}));
  EXPECT_EQ(tree.blocks(tree.match(Tokens{1, 2, 3, 4, 5, 6})), (std::vector<BlockId>{0, 1, 2}));
}

TEST_F(PrefixTreeTest, AMatchGoesOnFromAnEarlierOne) {
  const Tokens tokens{1, 2, 3, 4, 5, 6, 9, 9};
  const PrefixPath before = tree.match(tokens);
  ASSERT_TRUE(tree.insert(2, Tokens{9, 9}, 5));
  EXPECT_EQ(tree.blocks(tree.match(tokens, before)), tree.blocks(tree.match(tokens)));
  EXPECT_EQ(tree.match(tokens, before).num_blocks, 4);
}

TEST_F(PrefixTreeTest, AMatchThatMissedFindsWhatIsMadeAfterIt) {
  const Tokens missed = {1, 2, 3, 4, 9, 9, 8, 8}, begun = {1, 2, 3, 4};
  PrefixPath path = tree.match(missed), ended = tree.match(begun), nothing = tree.match(Tokens{6, 6});
  EXPECT_EQ(path.num_blocks, 2);
  tree.insert(1, Tokens{7, 7}, 6);
  path = tree.match(missed, path);  // another child
  EXPECT_EQ(path.num_blocks, 2);
  tree.insert(1, Tokens{9, 9}, 7);
  path = tree.match(missed, path);
  EXPECT_EQ(path.num_blocks, 3);
  // `ended` stopped because its tokens ended, not because a block was missing. 2: it does not go on from there.
  EXPECT_EQ(tree.match(Tokens{1, 2, 3, 4, 9, 9}, ended).num_blocks, 3);
  EXPECT_EQ(nothing.num_blocks, 0);
  tree.insert(kPrefixRoot, Tokens{6, 6}, 5);
  EXPECT_EQ(tree.match(Tokens{6, 6}, nothing).num_blocks, 1);
}

TEST_F(PrefixTreeTest, AMatchWhoseLastBlockWasEvictedAndReusedStartsAnew) {
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  const PrefixPath before = tree.match(tokens);
  tree.erase(2);
  EXPECT_EQ(tree.match(tokens, before).num_blocks, 2);
  ASSERT_TRUE(tree.insert(kPrefixRoot, Tokens{5, 6}, 2));  // the same block, another node
  EXPECT_EQ(tree.match(tokens, before).num_blocks, 2);     // 3: the reused block was trusted
}

TEST_F(PrefixTreeTest, AParentBecomesALeafWhenItsLastChildGoes) {
  EXPECT_FALSE(tree.is_leaf(0));
  tree.erase(2);
  EXPECT_TRUE(tree.is_leaf(1));
  tree.erase(1);
  EXPECT_FALSE(tree.is_leaf(0));  // block 3 is still there
  tree.erase(3);
  EXPECT_TRUE(tree.is_leaf(0));
  EXPECT_EQ(tree.size(), 1u);
}

TEST_F(PrefixTreeTest, TheClosestChildBeginsWithMostOfTheTokens) {
  PrefixTree wide(8, 4);
  ASSERT_TRUE(wide.insert(kPrefixRoot, Tokens{1, 2, 3, 4}, 0));
  ASSERT_TRUE(wide.insert(0, Tokens{5, 6, 7, 8}, 1));
  ASSERT_TRUE(wide.insert(0, Tokens{5, 6, 9, 9}, 2));
  wide.insert_partial(0, Tokens{5, 6, 7}, 3);
  EXPECT_EQ(wide.closest_child(0, Tokens{5, 6, 7, 8}).block, 1);
  EXPECT_EQ(wide.closest_child(0, Tokens{5, 6, 7, 8}).num_tokens, 4);
  EXPECT_EQ(wide.closest_child(0, Tokens{5, 6, 9}).block, 2);
  EXPECT_EQ(wide.closest_child(0, Tokens{5, 6, 7}).num_tokens, 3);
  EXPECT_EQ(wide.closest_child(0, Tokens{6}).num_tokens, 0);  // 1: tokens were compared as a set
  EXPECT_EQ(wide.closest_child(kPrefixRoot, Tokens{1, 2}).num_tokens, 2);
  wide.erase(1);
  EXPECT_EQ(wide.closest_child(0, Tokens{5, 6, 7, 8}).block, 3);  // 1: a block that has gone
}

TEST_F(PrefixTreeTest, NoPathLeadsThroughATail) {
  tree.insert_partial(2, Tokens{7}, 4);
  EXPECT_EQ(tree.match(Tokens{1, 2, 3, 4, 5, 6, 7}).num_blocks, 3);
  EXPECT_EQ(tree.match(Tokens{1, 2, 3, 4, 5, 6, 7, 0}).num_blocks, 3);  // 4: what is not written was taken for a token
  EXPECT_FALSE(tree.is_leaf(2));
  EXPECT_EQ(tree.size(), 4u);
  tree.erase(4);
  EXPECT_TRUE(tree.is_leaf(2));
  EXPECT_EQ(tree.size(), 4u);
}

TEST_F(PrefixTreeTest, AScoreStaysUntilOneWithMoreAlternativesComes) {
  EXPECT_EQ(tree.score(1, 0), nullptr);
  tree.set_score(1, 0, {.id = 3, .logprob = -1.0f, .rank = 2, .top = {{7, -0.5f}}});
  EXPECT_EQ(tree.score(1, 1), nullptr);  // its neighbour is still unknown
  tree.set_score(1, 0, {.id = 3, .logprob = -1.0f, .rank = 2, .top = {}});
  EXPECT_EQ(tree.score(1, 0)->top.size(), 1u);  // 0: the shorter list replaced the longer
  tree.set_score(1, 0, {.id = 3, .logprob = -1.0f, .rank = 2, .top = {{7, -0.5f}, {3, -1.0f}}});
  EXPECT_EQ(tree.score(1, 0)->top.size(), 2u);
}

TEST_F(PrefixTreeTest, ScoresGoWithTheirBlock) {
  tree.set_score(2, 1, {.id = 6, .logprob = -1.0f, .rank = 1, .top = {}});
  tree.erase(2);
  ASSERT_TRUE(tree.insert(1, Tokens{5, 9}, 2));
  EXPECT_EQ(tree.score(2, 1), nullptr);
}

// What an observer was told, in its order: "+2" stored, "-2" removed.
struct Told : KvObserver {
  void stored(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) override {
    EXPECT_EQ(tokens.size(), 2u);
    list.push_back(std::to_string(parent) + "+" + std::to_string(block));
  }
  void removed(BlockId block) override { list.push_back("-" + std::to_string(block)); }
  std::vector<std::string> list;
};

TEST(PrefixTreeObserver, HearsOfFullBlocksAlone) {
  Told told;
  PrefixTree tree(8, 2, &told);
  tree.insert(kPrefixRoot, Tokens{1, 2}, 0);
  tree.insert(0, Tokens{3, 4}, 1);
  tree.insert_partial(1, Tokens{5}, 2);
  tree.erase(2);
  tree.erase(1);
  EXPECT_EQ(told.list,
            (std::vector<std::string>{"-1+0", "0+1", "-1"}));  // no 2: it is a partial block, which nobody can share
}

}  // namespace
}  // namespace mortise
