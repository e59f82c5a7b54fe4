#include "proposers/ngram/match_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace mortise::ngram {
namespace {

using Tokens = std::vector<int32_t>;

// The promise of draft(), written out plainly: the longest match, and of equally long ones the latest.
Tokens naive_draft(const Tokens& tokens, const MatchOptions& options, std::size_t most) {
  const auto size = static_cast<int32_t>(tokens.size());
  for (int32_t length = std::min(options.max_match, size - 1); length >= options.min_match; --length) {
    for (int32_t end = size - 1; end >= length; --end) {
      if (!std::equal(tokens.end() - length, tokens.end(), tokens.begin() + (end - length))) continue;
      Tokens text(tokens.begin() + end, tokens.end());
      for (std::size_t i = 0; text.size() < most; ++i) text.push_back(text[i]);
      text.resize(most);
      return text;
    }
  }
  return {};
}

MatchIndex index_of(const MatchOptions& options, const Tokens& tokens) {
  MatchIndex index(options);
  for (int32_t token : tokens) index.append(token);
  return index;
}

Tokens draft_of(const MatchIndex& index, std::size_t most) {
  Tokens out(most, -7);
  const int32_t n = index.draft(out);
  EXPECT_TRUE(n == 0 || n == static_cast<int32_t>(most));
  out.resize(static_cast<std::size_t>(n));
  return out;
}

Tokens draft_of(const MatchOptions& options, const Tokens& tokens, std::size_t most) {
  return draft_of(index_of(options, tokens), most);
}

TEST(MatchIndex, DraftsWhatFollowedTheLastTokens) {
  const MatchOptions options{2, 4};
  EXPECT_EQ(draft_of(options, {1, 2, 3, 4, 5, 9, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(draft_of(options, {1, 2, 3, 4, 5, 9, 7, 3}, 2), Tokens{});  // one token alone is no match of 2
}

TEST(MatchIndex, TheLatestMatchGoesFirst) {
  EXPECT_EQ(draft_of({2, 4}, {1, 2, 30, 1, 2, 31, 1, 2}, 1), Tokens{31});
}

TEST(MatchIndex, ALongerMatchGoesBeforeALaterOne) {
  EXPECT_EQ(draft_of({2, 4}, {1, 2, 3, 40, 9, 2, 3, 41, 1, 2, 3}, 1), Tokens{40});
  EXPECT_EQ(draft_of({2, 2}, {1, 2, 3, 40, 9, 2, 3, 41, 1, 2, 3}, 1), Tokens{41});  // that one is no longer than 2
}

TEST(MatchIndex, ACopyRunsOverItsOwnEnd) {
  EXPECT_EQ(draft_of({1, 4}, {5, 5}, 4), (Tokens{5, 5, 5, 5}));
  EXPECT_EQ(draft_of({2, 4}, {1, 2, 3, 1, 2, 3, 1}, 7), (Tokens{2, 3, 1, 2, 3, 1, 2}));
}

TEST(MatchIndex, TooFewTokensHaveNoDraft) {
  const MatchOptions options{3, 5};
  for (std::size_t n = 0; n < 4; ++n) EXPECT_EQ(draft_of(options, Tokens(n, 1), 4), Tokens{}) << n;
  EXPECT_EQ(draft_of(options, Tokens(4, 1), 2), (Tokens{1, 1}));
  EXPECT_EQ(draft_of(options, Tokens(4, 1), 0), Tokens{});
}

TEST(MatchIndex, AgreesWithANaiveSearchAtEveryStep) {
  std::mt19937 random(7);
  std::int64_t num_drafts = 0;
  for (int round = 0; round < 300; ++round) {
    // Small vocabularies have matches of every length, large ones hardly any.
    const auto vocabulary = static_cast<std::uint32_t>(round % 3 == 0 ? 2 : round % 3 == 1 ? 7 : 40);
    MatchOptions options{static_cast<int32_t>(1 + random() % 4), 0, random()};
    options.max_match = options.min_match + static_cast<int32_t>(random() % 4);
    MatchIndex index(options);
    Tokens tokens;
    for (int step = 0; step < 150; ++step) {
      // Now and then a piece comes again, as a quotation.
      tokens.push_back(step > 20 && random() % 3 != 0 ? tokens[tokens.size() - 20]
                                                      : static_cast<int32_t>(random() % vocabulary));
      index.append(tokens.back());
      const std::size_t most = random() % 10;
      const Tokens expected = naive_draft(tokens, options, most);
      num_drafts += expected.empty() ? 0 : 1;
      ASSERT_EQ(draft_of(index, most), expected)
          << "round " << round << " step " << step << " min " << options.min_match << " max " << options.max_match
          << " most " << most;
    }
  }
  EXPECT_GT(num_drafts, 10'000);  // less: the streams hold nothing to be found
}

TEST(MatchIndex, MemoryStaysBelowItsBound) {
  std::mt19937 random(3);
  for (const MatchOptions options : {MatchOptions{2, 4, 1}, MatchOptions{1, 16, 2}}) {
    MatchIndex index(options);
    const auto lengths = static_cast<uint64_t>(options.max_match - options.min_match + 1);
    for (uint64_t n = 1; n <= 20'000; ++n) {
      index.append(static_cast<int32_t>(random() % 100'000));  // nothing comes twice: the tables are as large as can be
      ASSERT_LE(index.memory_bytes(), MatchIndex::bytes_per_token(options) * n + MatchIndex::kMinBytes * lengths) << n;
    }
  }
  EXPECT_EQ(MatchIndex::bytes_per_token({2, 4}), 56u);  // what the README says
}

// A text of one token: all n-grams are the same, so the search for one must not walk along all the others.
TEST(MatchIndex, AStepCostsNoMoreInALongTextThanInAShortOne) {
  const auto best_step_seconds = [](std::size_t context, bool constant) {
    const MatchOptions options{2, 4};
    std::mt19937 random(5);
    const auto next = [&] { return constant ? 1 : static_cast<int32_t>(random() % 500); };
    MatchIndex index(options);
    for (std::size_t i = 0; i < context; ++i) index.append(next());
    Tokens out(8);
    double best = 1e9;
    for (int block = 0; block < 40; ++block) {  // the fastest: other programs run here too
      const auto start = std::chrono::steady_clock::now();
      for (int step = 0; step < 100; ++step) {
        index.append(next());
        index.draft(out);
      }
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      best = std::min(best, elapsed.count());
    }
    return best;
  };
  // 256 times as long; memory that is no longer in the caches may make it slower, but not by that.
  for (bool constant : {true, false}) {
    EXPECT_LT(best_step_seconds(1 << 19, constant), 40 * best_step_seconds(1 << 11, constant)) << constant;
  }
}

}  // namespace
}  // namespace mortise::ngram
