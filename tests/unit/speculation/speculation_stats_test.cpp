#include "speculation/speculation_stats.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

SpeculationStats some() {
  SpeculationStats stats;
  ProposerStats ngram;
  ngram.name = "ngram";
  ngram.add(4, 2);
  ngram.add(2, 2);
  ngram.draft_s = 0.25;
  stats.proposers = {ngram, {}};
  stats.proposers[1].name = "draft_model";
  stats.num_steps = 2;
  stats.verify_s = 0.5;
  return stats;
}

TEST(SpeculationStats, CountsByPosition) {
  const SpeculationStats stats = some();
  EXPECT_EQ(stats.proposers[0].drafted_at, (std::vector<std::uint64_t>{2, 2, 1, 1}));
  EXPECT_EQ(stats.proposers[0].accepted_at, (std::vector<std::uint64_t>{2, 2, 0, 0}));
  EXPECT_EQ(stats.proposers[0].mean_acceptance_length(), 3.0);  // 1 + 4 accepted in 2 verifications
  EXPECT_EQ(stats.proposers[1].mean_acceptance_length(), 1.0);
}

TEST(SpeculationStats, TextNamesWhoDrafted) {
  EXPECT_EQ(describe(some()), (std::vector<std::string>{
                                  "ngram: 4 of 6 drafts accepted (66.7 %; by position 100 100 0 0 %), mean acceptance "
                                  "length 3.00; drafting 250.0 ms",
                                  "verifying: 2 steps, 500.0 ms"}));
  EXPECT_TRUE(describe(SpeculationStats{}).empty());
}

TEST(SpeculationStats, JsonHasEveryFigure) {
  const auto json = to_json(some());
  const auto& ngram = json.at("proposers").at(0);
  EXPECT_EQ(ngram.at("name"), "ngram");
  EXPECT_EQ(ngram.at("verified"), 2);
  EXPECT_EQ(ngram.at("draft_tokens"), 6);
  EXPECT_EQ(ngram.at("accepted_tokens"), 4);
  EXPECT_EQ(ngram.at("acceptance_rate_by_position"), nlohmann::json({1.0, 1.0, 0.0, 0.0}));
  EXPECT_EQ(ngram.at("mean_acceptance_length"), 3.0);
  EXPECT_EQ(ngram.at("draft_s"), 0.25);
  EXPECT_EQ(json.at("verify_steps"), 2);
  EXPECT_EQ(json.at("verify_s"), 0.5);
}

TEST(SpeculationStats, AddUpByName) {
  SpeculationStats sum = some(), more;
  more.proposers = {some().proposers[0]};
  more.proposers[0].name = "draft_model";
  sum.add(more);
  sum.add(some());
  ASSERT_EQ(sum.proposers.size(), 2u);
  EXPECT_EQ(sum.proposers[0].num_drafts, 12u);
  EXPECT_EQ(sum.proposers[1].num_drafts, 6u);
  EXPECT_EQ(sum.proposers[1].accepted_at, (std::vector<std::uint64_t>{2, 2, 0, 0}));
  EXPECT_EQ(sum.num_steps, 4u);
}

TEST(SpeculationStats, WhatCameSinceIsTheRest) {
  const SpeculationStats before = some();
  SpeculationStats now = before;
  now.proposers[0].add(6, 1);
  now.proposers[0].draft_s += 0.5;
  now.num_steps += 3;
  now.verify_s += 1;
  const SpeculationStats rest = now.since(before);
  EXPECT_EQ(rest.proposers[0].drafted_at, (std::vector<std::uint64_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(rest.proposers[0].accepted_at, (std::vector<std::uint64_t>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rest.proposers[0].num_verified, 1u);
  EXPECT_EQ(rest.proposers[0].num_drafts, 6u);
  EXPECT_EQ(rest.proposers[0].num_accepted, 1u);
  EXPECT_EQ(rest.proposers[0].draft_s, 0.5);
  EXPECT_EQ(rest.num_steps, 3u);
  EXPECT_EQ(rest.verify_s, 1);
  EXPECT_EQ(now.since({}).num_steps, now.num_steps);  // an engine that had not begun
}

}  // namespace
}  // namespace mortise
