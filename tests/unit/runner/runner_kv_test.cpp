#include "runner/runner_kv.hpp"

#include <gmock/gmock.h>

#include <numeric>

namespace mortise {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int32_t kBlockSize = 4;

// The runner's part of a step: blocks for those that are wanted, KV for all of their tokens.
class RunnerKvTest : public ::testing::Test {
 protected:
  RunnerSequence& make(std::uint64_t id, std::int32_t num_tokens, std::int32_t first_token = 0) {
    RunnerSequence& sequence = all_[id];
    sequence.tokens.resize(static_cast<std::size_t>(num_tokens));
    std::iota(sequence.tokens.begin(), sequence.tokens.end(), first_token);
    sequence.num_committed = num_tokens;
    return sequence;
  }
  // The ids of those that can run, in their order.
  std::vector<std::uint64_t> step(const std::vector<std::uint64_t>& ids) {
    ++step_;
    std::vector<RunnerSequence*> wanted;
    for (const std::uint64_t id : ids) {
      wanted.push_back(&all_.at(id));
      wanted.back()->last_step = step_;
    }
    wanted.resize(kv_.reserve(wanted, all_, step_));
    std::vector<std::uint64_t> ran;
    for (RunnerSequence* sequence : wanted) {
      sequence->num_computed = sequence->num_tokens();
      kv_.publish(*sequence);
      for (const auto& [id, one] : all_) {
        if (&one == sequence) ran.push_back(id);
      }
    }
    return ran;
  }
  void expect_whole_pool() {
    for (auto& [id, sequence] : all_) kv_.release(sequence);
    EXPECT_EQ(kv_.cache().num_available(), kv_.cache().num_blocks());
  }

  RunnerSequences all_;
  std::uint64_t step_ = 0;
  RunnerKv kv_{/*num_blocks=*/6, kBlockSize, /*prefix_cache=*/true};
};

TEST_F(RunnerKvTest, TheOneThatRanTheLongestTimeAgoGivesWay) {
  make(1, 8), make(2, 8, 100), make(3, 8, 200), make(4, 8, 300);
  for (const std::uint64_t id : {1, 2, 3, 1, 4}) EXPECT_THAT(step({id}), ElementsAre(id));
  EXPECT_EQ(kv_.num_forgotten(), 1u);
  EXPECT_THAT(all_[2].blocks, IsEmpty());
  EXPECT_THAT(all_[1].blocks, SizeIs(2));
  EXPECT_THAT(all_[3].blocks, SizeIs(2));
  expect_whole_pool();
}

TEST_F(RunnerKvTest, OfThoseThatAreWantedTogetherWhoHoldsBlocksComesFirst) {
  make(1, 12), make(2, 12, 100), make(3, 12, 200);
  EXPECT_THAT(step({1}), ElementsAre(1));
  EXPECT_THAT(step({2}), ElementsAre(2));
  EXPECT_THAT(step({3, 1, 2}), ElementsAre(1, 2));
  EXPECT_EQ(kv_.num_forgotten(), 0u);
  EXPECT_THAT(all_[3].blocks, IsEmpty());
  expect_whole_pool();
}

TEST_F(RunnerKvTest, TheLastOfThoseThatHoldGivesWayWhenOneGrows) {
  make(1, 12), make(2, 12, 100);
  EXPECT_THAT(step({1}), ElementsAre(1));
  EXPECT_THAT(step({2}), ElementsAre(2));
  make(1, 13);
  EXPECT_THAT(step({1, 2}), ElementsAre(1));
  EXPECT_THAT(all_[2].blocks, IsEmpty());
  EXPECT_EQ(all_[2].num_computed, 0);  // more: it would be run on KV that is another's
  EXPECT_EQ(kv_.num_forgotten(), 1u);
  expect_whole_pool();
}

TEST_F(RunnerKvTest, ASequenceThatIsLongerThanThePoolTakesNobodysBlocks) {
  make(1, 8), make(2, 25, 100);
  EXPECT_THAT(step({1}), ElementsAre(1));
  EXPECT_THAT(step({2}), IsEmpty());
  EXPECT_THAT(all_[1].blocks, SizeIs(2));
  expect_whole_pool();
}

// Without a block left for each of the others, the newcomer would be displaced in one of the next steps.
TEST_F(RunnerKvTest, ANewcomerLeavesABlockToEachOfTheOthers) {
  make(1, 12), make(2, 12, 100);
  EXPECT_THAT(step({1, 2}), ElementsAre(1));
  make(2, 8, 100);
  EXPECT_THAT(step({1, 2}), ElementsAre(1, 2));
  expect_whole_pool();
}

TEST_F(RunnerKvTest, APrefixThatAnotherPublishedNeedNotRun) {
  make(1, 10), make(2, 10);
  step({1});
  EXPECT_EQ(all_[1].num_published, 2);
  step_ += 1;
  all_[2].last_step = step_;
  std::vector<RunnerSequence*> wanted = {&all_[2]};
  ASSERT_EQ(kv_.reserve(wanted, all_, step_), 1u);
  EXPECT_EQ(all_[2].num_computed, 8);
  EXPECT_EQ(all_[2].blocks[0], all_[1].blocks[0]);
  EXPECT_NE(all_[2].blocks[2], all_[1].blocks[2]);
  expect_whole_pool();
}

TEST_F(RunnerKvTest, DraftsArePublishedByNobody) {
  make(1, 8).num_committed = 7;
  step({1});
  EXPECT_EQ(all_[1].num_published, 1);
  all_[1].num_committed = 8;
  kv_.publish(all_[1]);
  EXPECT_EQ(all_[1].num_published, 2);
  expect_whole_pool();
}

TEST_F(RunnerKvTest, ACutKeepsWhatIsBeforeItAndWritesIntoNoPublishedBlock) {
  make(1, 12).num_committed = 8;
  step({1});
  kv_.cut(all_[1], 10);  // within a block of its own
  EXPECT_EQ(all_[1].num_computed, 10);
  EXPECT_THAT(all_[1].blocks, SizeIs(3));
  kv_.cut(all_[1], 7);  // within one that others may read
  EXPECT_EQ(all_[1].num_computed, 4);
  EXPECT_THAT(all_[1].blocks, SizeIs(1));
  kv_.cut(all_[1], 9);
  EXPECT_EQ(all_[1].num_computed, 4);  // what is gone does not come back
  expect_whole_pool();
}

TEST_F(RunnerKvTest, AForkSharesWhatIsPublishedAndCopiesTheRest) {
  make(1, 11).num_committed = 8;
  step({1});
  RunnerSequence& fork = all_[2];
  std::vector<BlockId> from, to;
  ASSERT_TRUE(kv_.fork(all_[1], 10, fork, from, to));
  EXPECT_EQ(fork.num_computed, 10);
  EXPECT_EQ(fork.blocks[0], all_[1].blocks[0]);
  EXPECT_EQ(fork.blocks[1], all_[1].blocks[1]);
  EXPECT_THAT(from, ElementsAre(all_[1].blocks[2]));
  EXPECT_THAT(to, ElementsAre(fork.blocks[2]));
  EXPECT_NE(fork.blocks[2], all_[1].blocks[2]);
  make(3, 8, 100);
  step({3});
  EXPECT_FALSE(kv_.fork(all_[1], 10, all_[4], from, to));  // no block is left to copy into
  EXPECT_THAT(all_[4].blocks, IsEmpty());
  EXPECT_THAT(from, SizeIs(1));
  expect_whole_pool();
}

}  // namespace
}  // namespace mortise
