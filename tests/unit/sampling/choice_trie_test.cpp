#include "sampling/choice_trie.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace mortise {
namespace {

using Ids = std::vector<std::int32_t>;
using ::testing::Optional;
using ::testing::Pair;

constexpr std::int32_t kTokens = 70;  // two words of a mask and a bit

std::set<std::int32_t> allowed(const ChoiceTrie& trie, ChoiceTrie::Node node) {
  std::vector<std::uint32_t> mask((kTokens + 31) / 32);
  trie.allow(node, mask);
  std::set<std::int32_t> tokens;
  for (std::int32_t token = 0; token < kTokens; ++token) {
    if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1u) != 0) tokens.insert(token);
  }
  return tokens;
}

ChoiceTrie::Node walk(const ChoiceTrie& trie, const Ids& tokens) {
  ChoiceTrie::Node node = ChoiceTrie::kRoot;
  for (std::int32_t token : tokens) node = trie.next(node, token);
  return node;
}

using Tokens = std::set<std::int32_t>;

TEST(ChoiceTrie, AllowsWhatContinuesAChoice) {
  const ChoiceTrie trie({{5, 6}, {5, 7, 8}, {40}}, {});
  EXPECT_EQ(allowed(trie, ChoiceTrie::kRoot), (Tokens{5, 40}));
  EXPECT_EQ(allowed(trie, walk(trie, {5})), (Tokens{6, 7}));
  EXPECT_EQ(allowed(trie, walk(trie, {5, 7})), (Tokens{8}));
  EXPECT_TRUE(trie.is_complete(walk(trie, {5, 6})));
  EXPECT_FALSE(trie.is_complete(walk(trie, {5, 7})));
  EXPECT_TRUE(trie.is_complete(walk(trie, {40})));
  EXPECT_EQ(trie.longest(), 3);
}

TEST(ChoiceTrie, AChoiceThatGoesOnAsAnotherMayEndByAnEndToken) {
  const ChoiceTrie trie({{1}, {1, 2}, {1, 2, 3, 4}}, {9, 64});
  EXPECT_EQ(allowed(trie, ChoiceTrie::kRoot), (Tokens{1}));  // with 9: an empty text would be a choice
  EXPECT_EQ(allowed(trie, walk(trie, {1})), (Tokens{2, 9, 64}));
  EXPECT_EQ(allowed(trie, walk(trie, {1, 2})), (Tokens{3, 9, 64}));
  EXPECT_EQ(allowed(trie, walk(trie, {1, 2, 3})), (Tokens{4}));
  EXPECT_FALSE(trie.is_complete(walk(trie, {1})));
  EXPECT_TRUE(trie.is_complete(walk(trie, {1, 2, 3, 4})));
}

TEST(ChoiceTrie, NothingComesBackFromOffTheTrie) {
  const ChoiceTrie trie({{1, 2}}, {9});
  for (const Ids& tokens : {Ids{2}, Ids{9}, Ids{1, 1}, Ids{1, 2, 1}, Ids{3, 1, 2}}) {
    EXPECT_EQ(walk(trie, tokens), ChoiceTrie::kNone);
    EXPECT_FALSE(trie.is_complete(walk(trie, tokens)));
  }
}

TEST(ChoiceTrie, EqualChoicesAreOne) {
  const ChoiceTrie once({{3, 4}, {3, 5}}, {9}), twice({{3, 4}, {3, 5}, {3, 4}, {3, 5}, {3, 4}}, {9});
  EXPECT_EQ(once.num_nodes(), twice.num_nodes());
  EXPECT_EQ(allowed(once, walk(once, {3})), allowed(twice, walk(twice, {3})));
  EXPECT_TRUE(twice.is_complete(walk(twice, {3, 4})));
}

// Against the list of choices itself.
TEST(ChoiceTrie, AllowsWhatTheListOfChoicesSays) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<Ids> choices(1 + random() % 40);
    const std::uint32_t letters = 1 + random() % 4, longest = 1 + random() % 6;
    for (Ids& choice : choices) {
      choice.resize(1 + random() % longest);
      for (std::int32_t& token : choice) token = static_cast<std::int32_t>(random() % letters * 17);
    }
    const ChoiceTrie trie(choices, {69});
    for (const Ids& choice : choices) {
      for (std::size_t length = 0; length <= choice.size(); ++length) {
        const Ids beginning(choice.begin(), choice.begin() + static_cast<std::ptrdiff_t>(length));
        Tokens expected;
        bool ends = false;
        for (const Ids& other : choices) {
          if (other.size() < length || !std::equal(beginning.begin(), beginning.end(), other.begin())) continue;
          if (other.size() == length) ends = true;
          if (other.size() > length) expected.insert(other[length]);
        }
        const ChoiceTrie::Node node = walk(trie, beginning);
        ASSERT_NE(node, ChoiceTrie::kNone) << "seed " << seed;
        ASSERT_EQ(trie.is_complete(node), expected.empty()) << "seed " << seed;
        if (ends) expected.insert(69);
        ASSERT_EQ(allowed(trie, node), expected) << "seed " << seed;
      }
    }
  }
}

TEST(FindContinuedChoice, NamesAChoiceAndOneThatItBegins) {
  const std::vector<Ids> none = {
      {1, 2}, {2}, {1, 3}, {1, 2}};  // equal ones are no pair: there is nothing to tell apart
  EXPECT_EQ(find_continued_choice(none), std::nullopt);
  EXPECT_THAT(find_continued_choice(std::vector<Ids>{{7}, {1, 2, 3}, {4}, {1, 2}}), Optional(Pair(3u, 1u)));
}

}  // namespace
}  // namespace mortise
