#include "speculation/acceptance.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mortise {
namespace {

// A step in which one sequence had its drafts verified.
void verify(Acceptance& acceptance, SharedAcceptance& shared, std::int32_t max_drafts, std::int32_t num_drafts,
            std::int32_t num_accepted) {
  shared.add(acceptance, max_drafts, num_drafts, num_accepted);
  shared.end_step();
  acceptance.add(max_drafts, num_drafts, num_accepted);
}

TEST(Acceptance, ComesFromThePriorToWhatIsSeenAndFollowsAChange) {
  Acceptance acceptance;
  SharedAcceptance shared;
  EXPECT_DOUBLE_EQ(acceptance.rate(0, shared), shared.rate(0));
  for (int i = 0; i < 50; ++i) verify(acceptance, shared, 4, 4, 4);
  EXPECT_GT(acceptance.rate(0, shared), 0.95);
  EXPECT_GT(acceptance.rate(3, shared), 0.95);
  for (int i = 0; i < 50; ++i) verify(acceptance, shared, 4, 4, 0);
  EXPECT_LT(acceptance.rate(0, shared), 0.3);
  EXPECT_GT(acceptance.yield(shared), 0.99);
  for (int i = 0; i < 200; ++i) verify(acceptance, shared, 4, 0, 0);
  EXPECT_LT(acceptance.yield(shared), 0.05);
}

TEST(Acceptance, IsThatOfADraftWhosePredecessorsStoodByPosition) {
  Acceptance acceptance;
  SharedAcceptance shared;
  for (int i = 0; i < 400; ++i)
    verify(acceptance, shared, 3, 3, i % 2 == 0 ? 3 : 0);  // all drafts accepted, or none, in turn
  EXPECT_NEAR(shared.rate(0), 0.5, 0.05);
  EXPECT_NEAR(acceptance.rate(0, shared), 0.5, 0.05);
  EXPECT_GT(acceptance.rate(1, shared), 0.97);
  EXPECT_GT(acceptance.rate(2, shared), 0.97);
  EXPECT_GT(shared.rate(20), 0.9);  // beyond what was ever tried: as at the last position that was
}

TEST(Acceptance, WhatIsSharedWeighsMoreWhereSequencesAreAlike) {
  SharedAcceptance alike, unlike;
  std::vector<Acceptance> one(8), two(8);
  for (int i = 0; i < 200; ++i) {
    for (int seq = 0; seq < 8; ++seq) {
      verify(one[seq], alike, 1, 1, (i * 7 + seq * 3) % 10 < 5 ? 1 : 0);
      verify(two[seq], unlike, 1, 1, seq % 2);
    }
  }
  EXPECT_GE(alike.weight(), 32);
  EXPECT_LE(unlike.weight(), 2);
  Acceptance lucky;
  for (int i = 0; i < 3; ++i) lucky.add(1, 1, 1);
  EXPECT_LT(lucky.rate(0, alike), 0.6);
  EXPECT_GT(lucky.rate(0, unlike), 0.75);
}

}  // namespace
}  // namespace mortise
