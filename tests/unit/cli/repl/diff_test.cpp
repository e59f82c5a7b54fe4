#include "cli/repl/diff.hpp"

#include <limits>

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Diff, SetsStandBetweenQuotesOrAreWords) {
  EXPECT_THAT(split_sets("now other.lua"), ElementsAre("now", "other.lua"));
  EXPECT_THAT(split_sets(" \"attention paged {}\"  'scheduler fcfs' "),
              ElementsAre("attention paged {}", "scheduler fcfs"));
  EXPECT_THAT(split_sets("\"kv_cache {memory = \\\"1MiB\\\"}\""), ElementsAre("kv_cache {memory = \"1MiB\"}"));
  EXPECT_THAT(split_sets("'kv_cache {memory = \"1MiB\"}' now"), ElementsAre("kv_cache {memory = \"1MiB\"}", "now"));
  EXPECT_THAT(split_sets("attention cascade {block_size = 16}"), ElementsAre("attention cascade {block_size = 16}"));
  EXPECT_THAT(split_sets("a.lua"), ElementsAre("a.lua"));
}

TEST(Diff, WhatIsTypedWrongIsTold) {
  EXPECT_THAT(error_of([] { split_sets(" "); }), HasSubstr("0 sets of parts are given, but /diff compares two"));
  EXPECT_THAT(error_of([] { split_sets("now ./a.lua ./b.lua"); }), HasSubstr("3 sets of parts are given"));
  EXPECT_THAT(error_of([] { split_sets("\"attention paged"); }), HasSubstr("a \" is not closed; write /diff A B"));
  EXPECT_THAT(error_of([] { split_sets("now ''"); }), HasSubstr("a set of parts is empty; write /diff A B"));
}

TEST(Diff, SemicolonsPartChanges) {
  EXPECT_THAT(split_changes("attention paged; scheduler fcfs {}"),
              ElementsAre("attention paged", " scheduler fcfs {}"));
  EXPECT_THAT(split_changes("a b {x = 1; y = 2}; c d {z = ';\\';'};"),
              ElementsAre("a b {x = 1; y = 2}", " c d {z = ';\\';'}"));
  EXPECT_THAT(split_changes(" ; "), IsEmpty());
}

TokenInfo token(std::int32_t id, float logprob) {
  TokenInfo info;
  info.id = id;
  info.logprob = logprob;
  return info;
}

TEST(Diff, FindsTheFirstDifferenceInAnyBit) {
  const std::vector<TokenInfo> a = {token(1, -0.5f), token(2, -1.0f), token(3, -2.0f)};
  std::vector<TokenInfo> b = a;
  EXPECT_EQ(first_difference(a, b), std::nullopt);
  b[2].draft = DraftOutcome::kAccepted;  // of the run, not of the token
  EXPECT_EQ(first_difference(a, b), std::nullopt);
  b[1].logprob = std::nextafter(-1.0f, 0.0f);
  EXPECT_EQ(first_difference(a, b), 1u);
  b[0].id = 9;
  EXPECT_EQ(first_difference(a, b), 0u);
  EXPECT_EQ(first_difference(a, std::span(a).first(2)), 2u);
  EXPECT_EQ(first_difference({}, a), 0u);
}

}  // namespace
}  // namespace mortise
