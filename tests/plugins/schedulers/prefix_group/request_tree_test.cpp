#include "schedulers/prefix_group/request_tree.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <random>

namespace mortise::prefix_group {
namespace {

using ::testing::ElementsAre;

using Tokens = std::vector<int32_t>;

Tokens joined(const Tokens& prefix, int32_t first, int32_t count) {
  Tokens tokens = prefix;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

std::vector<Ticket> waiting(const RequestTree& tree, NodeId node) {
  std::vector<Ticket> tickets;
  tree.visit_waiting(node, [&](Ticket ticket) {
    tickets.push_back(ticket);
    return true;
  });
  return tickets;
}

TEST(RequestTree, RequestsOfOnePrefixAreAGroupAndOthersAreAlone) {
  RequestTree tree(16);
  const Tokens prefix = joined({}, 1, 40);
  const NodeId a = tree.insert(joined(prefix, 100, 5), 1);
  const NodeId b = tree.insert(joined(prefix, 200, 5), 2);
  const NodeId alone = tree.insert(joined({}, 500, 9), 3);
  const NodeId group = tree.group_of(a);
  EXPECT_EQ(tree.group_of(b), group);
  EXPECT_EQ(tree.depth(group), 40);
  EXPECT_EQ(tree.blocks_to(group), 32);
  EXPECT_EQ(tree.saved(RequestTree::kRoot), 32);
  EXPECT_EQ(tree.group_of(alone), alone);
}

TEST(RequestTree, APrefixShorterThanABlockMakesNoGroup) {
  RequestTree tree(16);
  const NodeId a = tree.insert(joined({7, 8, 9}, 100, 5), 1);
  tree.insert(joined({7, 8, 9}, 200, 5), 2);
  EXPECT_EQ(tree.group_of(a), a);
  tree.set_block_size(1);  // now three tokens are three blocks
  EXPECT_EQ(tree.depth(tree.group_of(a)), 3);
}

// Nine requests share 100 tokens, and two of them 40 more. The whole group saves 8 x 100 tokens, a group of the two
// only 1 x 140.
TEST(RequestTree, AGroupStaysAtTheShorterPrefixWhereThatSavesMore) {
  RequestTree tree(1);
  const Tokens prefix = joined({}, 1, 100), longer = joined(prefix, 1000, 40);
  for (Ticket ticket = 1; ticket <= 7; ++ticket) {
    tree.insert(joined(prefix, 2000 + 10 * static_cast<int32_t>(ticket), 3), ticket);
  }
  const NodeId a = tree.insert(joined(longer, 3000, 3), 8);
  tree.insert(joined(longer, 4000, 3), 9);
  EXPECT_EQ(tree.depth(tree.group_of(a)), 100);
  EXPECT_EQ(tree.saved(RequestTree::kRoot), 800);
}

// Sixteen share 10 tokens, in two halves of eight with 100 more. Whole: 15 x 10. Enlarged: 2 x 7 x 110.
TEST(RequestTree, AGroupIsEnlargedWhereThatSavesMore) {
  RequestTree tree(1);
  const Tokens prefix = joined({}, 1, 10);
  std::vector<NodeId> nodes;
  for (Ticket ticket = 1; ticket <= 16; ++ticket) {
    const Tokens half = joined(prefix, ticket % 2 == 0 ? 1000 : 2000, 100);
    nodes.push_back(tree.insert(joined(half, 5000 + static_cast<int32_t>(ticket), 1), ticket));
  }
  EXPECT_NE(tree.group_of(nodes[0]), tree.group_of(nodes[1]));
  EXPECT_EQ(tree.group_of(nodes[0]), tree.group_of(nodes[2]));
  EXPECT_EQ(tree.depth(tree.group_of(nodes[0])), 110);
  EXPECT_EQ(tree.saved(RequestTree::kRoot), 2 * 7 * 110);
}

TEST(RequestTree, ARequestThatIsThePrefixOfOthersIsOfTheirGroup) {
  RequestTree tree(1);
  const Tokens prefix = joined({}, 1, 10);
  const NodeId longer = tree.insert(joined(prefix, 50, 4), 1);
  const NodeId shorter = tree.insert(prefix, 2);
  EXPECT_EQ(tree.group_of(longer), shorter);
  EXPECT_EQ(tree.insert(prefix, 3), shorter);  // equal tokens, one node
  EXPECT_THAT(waiting(tree, shorter), ElementsAre(1, 2, 3));
}

TEST(RequestTree, NeighboursComeTogetherAndTheOldestWayFirst) {
  RequestTree tree(1);
  const Tokens x = joined({}, 1, 5), y = joined({}, 100, 5);
  tree.insert(joined(y, 7, 1), 1);
  tree.insert(joined(x, 7, 1), 2);
  tree.insert(joined(x, 8, 1), 3);
  tree.insert(joined(y, 8, 1), 4);
  EXPECT_THAT(waiting(tree, RequestTree::kRoot), ElementsAre(1, 4, 2, 3));
  EXPECT_EQ(tree.last_waiting(RequestTree::kRoot), 3u);
}

TEST(RequestTree, WhoeverComputesIsNoLongerWaitingButSeenByThoseWhoShare) {
  RequestTree tree(16);
  const Tokens prefix = joined({}, 1, 40);
  const NodeId a = tree.insert(joined(prefix, 100, 5), 1);
  const NodeId b = tree.insert(joined(prefix, 200, 5), 2);
  EXPECT_EQ(tree.shared_with_computing(b, 1).num_tokens, 0);
  tree.mark(a, 1, 77);
  EXPECT_EQ(tree.shared_with_computing(b, 1).num_tokens, 40);
  EXPECT_EQ(tree.shared_with_computing(b, 1).id, 77u);
  EXPECT_EQ(tree.shared_with_computing(b, 2).num_tokens, 0);  // 40: the mark is of another plan
  tree.start(a, 1);
  EXPECT_EQ(tree.shared_with_computing(b, 2).num_tokens, 40);
  EXPECT_THAT(waiting(tree, RequestTree::kRoot), ElementsAre(2));
  EXPECT_EQ(tree.saved(RequestTree::kRoot), 0);  // of one that waits nothing is saved
  tree.finish(a);
  EXPECT_EQ(tree.shared_with_computing(b, 2).num_tokens, 0);
  EXPECT_EQ(tree.num_nodes(), 2u);  // root and b: what only led on is gone
}

TEST(RequestTree, AKeptNodeOutlivesItsRequests) {
  RequestTree tree(1);
  const Tokens prefix = joined({}, 1, 10);
  const NodeId a = tree.insert(joined(prefix, 50, 4), 1);
  const NodeId b = tree.insert(joined(prefix, 60, 4), 2);
  const NodeId group = tree.group_of(a);
  tree.keep(group);
  tree.cancel(a, 1);
  tree.cancel(b, 2);
  EXPECT_FALSE(tree.empty());
  const NodeId c = tree.insert(joined(prefix, 70, 4), 3);
  EXPECT_TRUE(tree.is_below(c, group));
  tree.cancel(c, 3);
  tree.let_go(group);
  EXPECT_TRUE(tree.empty());
}

// A model of the tree that compares all pairs.
struct Pairs {
  struct Entry {
    Tokens tokens;
    NodeId node;
    bool computes = false;
  };
  std::map<Ticket, Entry> entries;

  static int32_t common(const Tokens& a, const Tokens& b) {
    return static_cast<int32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }
  int32_t shared(const Tokens& tokens, bool computing_only) const {
    int32_t longest = 0;
    for (const auto& [ticket, entry] : entries) {
      if (entry.computes || !computing_only) longest = std::max(longest, common(tokens, entry.tokens));
    }
    return longest;
  }
  // saved(v) of the node that ends the first `depth` tokens of all `members`.
  static int64_t saved(const std::vector<const Tokens*>& members, std::size_t depth, int32_t block_size) {
    if (members.size() < 2) return 0;
    std::map<int32_t, std::vector<const Tokens*>> children;
    std::size_t here = 0;
    for (const Tokens* tokens : members) {
      if (tokens->size() == depth)
        ++here;
      else
        children[(*tokens)[depth]].push_back(tokens);
    }
    const auto whole =
        static_cast<int64_t>(members.size() - 1) * (static_cast<int64_t>(depth) / block_size * block_size);
    if (children.size() == 1 && here == 0) return saved(members, depth + 1, block_size);
    int64_t below = 0;
    for (const auto& [token, child] : children) below += saved(child, depth + 1, block_size);
    return std::max(whole, below);
  }
};

TEST(RequestTree, ItKnowsWhatComparingAllPairsTells) {
  std::mt19937 random(3);
  for (const int32_t block_size : {1, 3}) {
    RequestTree tree(block_size);
    Pairs pairs;
    Ticket next = 1;
    for (int round = 0; round < 3000; ++round) {
      const auto any = [&] {
        return std::next(pairs.entries.begin(), static_cast<std::ptrdiff_t>(random() % pairs.entries.size()));
      };
      const std::uint32_t what = random() % 8;
      if (pairs.entries.empty() || (what < 4 && pairs.entries.size() < 40)) {
        Tokens tokens(1 + random() % 12);  // of two kinds: much is shared, and some are equal
        for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 2);
        ASSERT_EQ(tree.shared_with(tokens), pairs.shared(tokens, false));
        pairs.entries[next] = {tokens, tree.insert(tokens, next)};
        ++next;
      } else if (const auto entry = any(); entry->second.computes) {
        tree.finish(entry->second.node);
        pairs.entries.erase(entry);
      } else if (what < 6) {
        tree.start(entry->second.node, entry->first);
        entry->second.computes = true;
      } else {
        tree.cancel(entry->second.node, entry->first);
        pairs.entries.erase(entry);
      }
      std::vector<Ticket> all;
      std::vector<const Tokens*> members;
      for (const auto& [ticket, entry] : pairs.entries) {
        ASSERT_EQ(tree.depth(entry.node), static_cast<int32_t>(entry.tokens.size()));
        if (entry.computes) continue;
        all.push_back(ticket);
        members.push_back(&entry.tokens);
        ASSERT_EQ(tree.shared_with_computing(entry.node, /*serial=*/1).num_tokens, pairs.shared(entry.tokens, true));
        ASSERT_TRUE(tree.is_below(entry.node, tree.group_of(entry.node)));
      }
      std::vector<Ticket> visited = waiting(tree, RequestTree::kRoot);
      std::sort(visited.begin(), visited.end());
      ASSERT_EQ(visited, all);
      ASSERT_EQ(tree.saved(RequestTree::kRoot), Pairs::saved(members, 0, block_size));
      if (!all.empty()) {
        ASSERT_EQ(tree.oldest(RequestTree::kRoot), all.front());
      }
      ASSERT_LE(tree.num_nodes(), 2 * pairs.entries.size() + 1);
    }
  }
}

}  // namespace
}  // namespace mortise::prefix_group
