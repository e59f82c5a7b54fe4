// What a runner runs, what it refuses, and what forks and drafts of the caller cost.
// Covers: runtime/runner/runner_sequence
#include "runner/runner.hpp"

#include <gmock/gmock.h>

#include <random>

#include "runner_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

TEST_F(RunnerTest, AForkCostsTheRowsBehindItsOrigin) {
  Rig rig(models_[0].folder, {});
  std::mt19937 random(3);
  ASSERT_EQ(rig.update(1, 0, draw(random, 100)), MORTISE_OK);
  const std::int32_t token = rig.step({1}, 0, 2)[1];
  ASSERT_EQ(rig.fork(1, kFork + 1, token), MORTISE_OK);
  const std::uint64_t before = rig.stats().num_rows;
  rig.step({1, kFork + 1});
  EXPECT_EQ(rig.stats().num_rows - before, 2u);  // 101 and more: the fork was computed from its beginning
}

TEST_F(RunnerTest, BeforeActivateNothingRuns) {
  RigOptions options;
  options.activate = false;
  Rig rig(models_[0].folder, options);
  EXPECT_NE(rig.update(1, 0, {1, 2}), MORTISE_OK);
  EXPECT_THAT(rig.error(), HasSubstr("the runner is not active: update it after the proposer's activate"));
  rig.step({1});
  EXPECT_NE(rig.status(), MORTISE_OK);
  EXPECT_THAT(rig.error(), HasSubstr("the runner is not active: run steps after the proposer's activate"));
  EXPECT_NE(rig.fork(1, kFork + 1, 5), MORTISE_OK);
  EXPECT_THAT(rig.error(), HasSubstr("the runner is not active: update it after the proposer's activate"));
}

TEST_F(RunnerTest, ForksThatCannotBeAreTold) {
  Rig rig(models_[0].folder, {});
  EXPECT_EQ(rig.fork(1, kFork + 1, 5), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "sequence 1 cannot be forked: it has no token");
  ASSERT_EQ(rig.update(1, 0, {1, 2}), MORTISE_OK);
  EXPECT_EQ(rig.fork(1, 2, 5), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "the id of fork 2 lacks MORTISE_RUNNER_FORK_BIT, the highest bit");
  ASSERT_EQ(rig.fork(1, kFork + 1, 5), MORTISE_OK);
  EXPECT_EQ(rig.fork(1, kFork + 1, 5), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(rig.error(), HasSubstr("of a fork is in use"));
}

TEST_F(RunnerTest, RunsWhatItHasNotSeenAndNothingElse) {
  Rig rig(models_[0].folder, {});
  std::mt19937 random(1);
  std::vector<std::int32_t> tokens = draw(random, 100);
  const auto rows_of_step = [&] {
    const std::uint64_t before = rig.stats().num_rows;
    tokens.push_back(rig.step({1}).front());
    return rig.stats().num_rows - before;
  };
  ASSERT_EQ(rig.update(1, 0, tokens), MORTISE_OK);
  EXPECT_EQ(rows_of_step(), 100u);
  EXPECT_EQ(rows_of_step(), 1u);  // the draft of before
  EXPECT_EQ(rows_of_step(), 1u);
  tokens.push_back(5);  // all three accepted, and the bonus token
  ASSERT_EQ(rig.update(1, 100, {tokens.begin() + 100, tokens.end()}), MORTISE_OK);
  EXPECT_EQ(rows_of_step(), 2u);  // the last draft, which was never run, and the bonus token
  EXPECT_EQ(rows_of_step(), 1u);
  tokens.resize(104);
  tokens.push_back(6);  // the first draft is rejected
  ASSERT_EQ(rig.update(1, 104, {6}), MORTISE_OK);
  EXPECT_EQ(rows_of_step(), 1u);
  const std::vector<std::int32_t> all(tokens.begin(), tokens.end() - 1);
  ASSERT_EQ(rig.update(1, 0, all), MORTISE_OK);  // told all of it again
  tokens = all;
  EXPECT_EQ(rows_of_step(), 1u);
}

TEST_F(RunnerTest, DraftsOfTheCallersOwnAreRunAndEnterNoPrefixTree) {
  for (const std::uint32_t flags : {MORTISE_RUNNER_DRAFTS, 0u}) {
    Rig rig(models_[0].folder, {});
    std::mt19937 random(4);
    const std::vector<std::int32_t> committed = draw(random, 14), drafts = draw(random, 20);
    ASSERT_EQ(rig.update(1, 0, committed), MORTISE_OK);
    rig.step({1});
    const std::uint64_t before = rig.stats().num_rows;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      ASSERT_EQ(rig.update(1, static_cast<std::int32_t>(14 + i), {drafts[i]}, flags), MORTISE_OK);
      rig.step({1});
    }
    EXPECT_EQ(rig.stats().num_rows - before, 20u);
    // The 14 tokens and 18 further ones fill two blocks, which enter the prefix cache unless the further ones are
    // drafts.
    rig.end(1);
    EXPECT_EQ(rig.stats().num_cached_free_blocks, flags == 0 ? 2 : 0);
  }
}

TEST_F(RunnerTest, ASequenceThatTheModelCannotRunHasNoDrafts) {
  Rig rig(models_[0].folder, {});
  std::mt19937 random(2);
  ASSERT_EQ(rig.update(1, 0, draw(random, 2047)), MORTISE_OK);
  ASSERT_EQ(rig.update(2, 0, {1, 2, 70000, 3}), MORTISE_OK);
  ASSERT_EQ(rig.update(3, 0, {1, 2, 3}), MORTISE_OK);
  EXPECT_THAT(rig.step({1, 2, 3}), ::testing::ElementsAre(::testing::Ge(0), -1, ::testing::Ge(0)));
  EXPECT_THAT(rig.step({1, 3}), ::testing::Each(::testing::Ge(0)));  // position 2047 is the last that there is
  EXPECT_EQ(rig.step({1}).front(), -1);
  ASSERT_EQ(rig.update(2, 2, {4}), MORTISE_OK);  // the token that it did not know is gone
  EXPECT_GE(rig.step({2}).front(), 0);
}

TEST_F(RunnerTest, MistakesOfTheCallerAreTold) {
  Rig rig(models_[0].folder, {});
  EXPECT_EQ(rig.update(1, 3, {1}), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "sequence 1 should continue at token 3, but the runner knows 0 of its tokens");
  EXPECT_EQ(rig.update(1, 0, {1}, 0, /*first_offset=*/5), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "offsets[1] is less than offsets[0]");
  rig.step({1});
  EXPECT_EQ(rig.status(), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "sequence 1 has no token");
  ASSERT_EQ(rig.update(1, 0, {1}), MORTISE_OK);
  rig.step({1, 1});
  EXPECT_EQ(rig.error(), "sequence 1 is given twice");
}

}  // namespace
}  // namespace mortise::test
