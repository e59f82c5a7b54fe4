#include "execution/prefix_groups.hpp"

#include <gmock/gmock.h>

#include <list>
#include <map>
#include <random>
#include <set>

#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

using testing::ElementsAre;
using Blocks = std::vector<BlockId>;

constexpr std::int32_t kBlock = 4;  // tokens, as in small_limits()

struct Group {
  std::int32_t shared, parent;
  std::vector<std::int32_t> members;
  bool operator==(const Group&) const = default;
};

// Runs of one row, each after all but one token of its blocks unless told otherwise.
struct Runs {
  void add(const Blocks& blocks) { add(blocks, static_cast<std::int32_t>(blocks.size()) * kBlock - 1); }
  void add(const Blocks& blocks, std::int32_t first, std::uint64_t id = 0) {
    static constexpr std::int32_t kToken[] = {1};
    held.push_back(blocks);
    runs.push_back({id, first, kToken, {}, held.back()});
  }
  std::list<Blocks> held;
  std::vector<RowRun> runs;
};

std::vector<Group> listed(std::span<const std::int32_t> offsets, std::span<const std::int32_t> seqs,
                          std::span<const std::int32_t> shared, std::span<const std::int32_t> parents) {
  std::vector<Group> groups;
  for (std::size_t g = 0; g < shared.size(); ++g) {
    const auto begin = seqs.begin() + offsets[g], end = seqs.begin() + offsets[g + 1];
    groups.push_back({shared[g], parents[g], {begin, end}});
  }
  return groups;
}

std::vector<Group> groups_of(const Runs& runs) {
  PrefixGroups groups(kBlock);
  groups.assign(runs.runs);
  EXPECT_EQ(groups.offsets().size(), static_cast<std::size_t>(groups.size()) + 1);
  EXPECT_EQ(groups.offsets().back(), static_cast<std::int32_t>(groups.seqs().size()));
  return listed(groups.offsets(), groups.seqs(), groups.shared_tokens(), groups.parents());
}

TEST(PrefixGroups, RunsThatShareNothingAreInNoGroup) {
  Runs runs;
  EXPECT_TRUE(groups_of(runs).empty());
  for (BlockId block = 1; block < 6; ++block) runs.add({block, 7, 8});  // equal blocks at another's place are no prefix
  EXPECT_TRUE(groups_of(runs).empty());
}

TEST(PrefixGroups, SeveralPrefixesAtOnce) {
  Runs runs;
  runs.add({1, 2, 3, 10});
  runs.add({4, 5, 11});
  runs.add({1, 2, 3, 12});
  runs.add({6, 13});
  runs.add({4, 5, 14});
  runs.add({1, 2, 3, 15, 16});
  EXPECT_THAT(groups_of(runs), ElementsAre(Group{12, -1, {0, 2, 5}}, Group{8, -1, {1, 4}}));
}

TEST(PrefixGroups, APrefixOfAPrefixIsItsParent) {
  Runs runs;
  runs.add({1, 2, 3, 10});
  runs.add({1, 2, 4, 11});
  runs.add({1, 2, 3, 12});
  runs.add({1, 2, 4, 13});
  runs.add({1, 14});
  runs.add({1, 2, 15});
  const auto groups = groups_of(runs);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0], (Group{4, -1, {0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(groups[1], (Group{8, 0, {0, 1, 2, 3, 5}}));
  EXPECT_THAT(groups, testing::Contains(Group{12, 1, {0, 2}}));
  EXPECT_THAT(groups, testing::Contains(Group{12, 1, {1, 3}}));
}

// Of the block that its own row is about to fill, a run shares nothing: the row does not see all of it.
TEST(PrefixGroups, OnlyBlocksThatEveryRowSeesAreShared) {
  Runs runs;
  runs.add({1, 2, 3}, 7);   // the row that fills block 2
  runs.add({1, 2, 3}, 6);   // the row before it
  runs.add({1, 2, 3}, 10);  // in block 3
  runs.add({1, 2, 3}, 0);   // a prefill that computes the prefix itself
  EXPECT_THAT(groups_of(runs), ElementsAre(Group{4, -1, {0, 1, 2}}, Group{8, 0, {0, 2}}));
}

TEST(PrefixGroups, ARunThatEndsWithThePrefixIsAMember) {
  Runs runs;
  runs.add({1, 2, 3, 4, 5});
  runs.add({1, 2});
  runs.add({1, 2, 3, 4, 6});
  EXPECT_THAT(groups_of(runs), ElementsAre(Group{8, -1, {0, 1, 2}}, Group{16, 0, {0, 2}}));
  Runs equal;
  equal.add({1, 2});
  equal.add({1, 2});
  EXPECT_THAT(groups_of(equal), ElementsAre(Group{8, -1, {0, 1}}));
}

TEST(PrefixGroups, DraftsThatAreRunsOfTheirOwnShareTheirSequencesBlocks) {
  Runs runs;
  runs.add({9, 8}, 5, 1);
  for (std::int32_t row = 0; row < 4; ++row) runs.add({1, 2, 3, 4}, 13 + row > 15 ? 15 : 13 + row, 2);
  EXPECT_THAT(groups_of(runs), ElementsAre(Group{12, -1, {1, 2, 3, 4}}, Group{16, 0, {3, 4}}));
}

TEST(PrefixGroups, NothingIsLeftOfTheStepBefore) {
  Runs first, second;
  first.add({1, 2});
  first.add({1, 3});
  PrefixGroups groups(kBlock);
  groups.assign(first.runs);
  ASSERT_EQ(groups.size(), 1);
  second.add({1, 2});
  groups.assign(second.runs);
  EXPECT_EQ(groups.size(), 0);
  EXPECT_TRUE(groups.seqs().empty());
  EXPECT_THAT(groups.offsets(), ElementsAre(0));
}

// Every set of at least two runs that begin with the same blocks, at the greatest depth at which it is that set.
std::set<std::pair<std::int32_t, std::vector<std::int32_t>>> by_definition(const std::vector<RowRun>& runs) {
  std::map<std::vector<std::int32_t>, std::int32_t> depth_of;
  for (std::size_t depth = 1; depth < 40; ++depth) {
    std::map<Blocks, std::vector<std::int32_t>> classes;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto whole = static_cast<std::size_t>((runs[i].first + 1) / kBlock);
      const auto begin = runs[i].blocks.begin();
      if (whole >= depth) {
        classes[Blocks(begin, begin + static_cast<std::ptrdiff_t>(depth))].push_back(static_cast<std::int32_t>(i));
      }
    }
    for (const auto& [blocks, members] : classes) {
      if (members.size() > 1) depth_of[members] = static_cast<std::int32_t>(depth);
    }
  }
  std::set<std::pair<std::int32_t, std::vector<std::int32_t>>> result;
  for (const auto& [members, depth] : depth_of) result.insert({depth * kBlock, members});
  return result;
}

void expect_nested(const std::vector<Group>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    ASSERT_TRUE(std::ranges::is_sorted(groups[g].members));
    ASSERT_LT(groups[g].parent, static_cast<std::int32_t>(g));
    if (groups[g].parent >= 0) {
      const Group& parent = groups[static_cast<std::size_t>(groups[g].parent)];
      ASSERT_GT(groups[g].shared, parent.shared);
      ASSERT_TRUE(std::ranges::includes(parent.members, groups[g].members));
    }
    for (std::size_t other = 0; other < g; ++other) {
      if (groups[other].parent != groups[g].parent) continue;
      for (const std::int32_t member : groups[g].members) {
        ASSERT_FALSE(std::ranges::binary_search(groups[other].members, member));
      }
    }
  }
}

TEST(PrefixGroups, RandomTreesAreFoundAsDefined) {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    std::mt19937 rng(seed);
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
    Runs runs;
    BlockId fresh = 100;
    for (int n = draw(0, 24); n > 0; --n) {
      Blocks blocks;
      if (!runs.held.empty() && draw(0, 3) != 0) {  // goes along with another for a while
        blocks = *std::next(runs.held.begin(), draw(0, static_cast<int>(runs.held.size()) - 1));
        blocks.resize(static_cast<std::size_t>(draw(0, static_cast<int>(blocks.size()))));
      }
      for (int more = draw(blocks.empty() ? 1 : 0, 9); more > 0 && blocks.size() < 36; --more) {
        blocks.push_back(draw(0, 3) == 0 ? draw(1, 3) : fresh++);
      }
      runs.add(blocks, draw(0, static_cast<int>(blocks.size()) * kBlock - 1));
    }
    const auto groups = groups_of(runs);
    std::set<std::pair<std::int32_t, std::vector<std::int32_t>>> found;
    for (const Group& group : groups) found.insert({group.shared, group.members});
    ASSERT_EQ(found.size(), groups.size()) << "seed " << seed;
    ASSERT_EQ(found, by_definition(runs.runs)) << "seed " << seed;
    expect_nested(groups);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
}

TEST(PrefixGroups, ABatchTellsThemWhereTheAttentionTakesThem) {
  const EngineLimits limits = small_limits();
  FakeWorld world(limits);
  Parts parts = world.parts();
  Runs runs;
  runs.add({1, 2, 3});
  runs.add({1, 2, 4});
  for (const bool wanted : {false, true}) {
    parts.prefix_groups = wanted;
    BatchBuilder builder(parts, limits);
    const mortise_batch& batch = builder.build(1, runs.runs, {}, {});
    if (!wanted) {
      EXPECT_EQ(batch.num_groups, 0);
      continue;
    }
    ASSERT_EQ(batch.num_groups, 1);
    EXPECT_THAT(listed({batch.group_offsets, 2}, {batch.group_seqs, 2}, {batch.group_shared_tokens, 1},
                       {batch.group_parents, 1}),
                ElementsAre(Group{8, -1, {0, 1}}));
  }
}

}  // namespace
}  // namespace mortise::test
