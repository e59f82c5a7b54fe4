#include "speculation/step_costs.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "speculation/acceptance.hpp"

namespace mortise {
namespace {

TEST(TimeTable, GuessesAtFirst) {
  const CostCurve curve = TimeTable(24).curve(4);
  EXPECT_FALSE(curve.known());
  EXPECT_GT(curve.at(8), curve.at(4));      // larger steps take longer,
  EXPECT_LT(curve.at(8), 2 * curve.at(4));  // but less than in proportion
}

TEST(TimeTable, OnePointTellsOfSmallerAndLargerOnes) {
  TimeTable steps(24), passes(0);
  steps.add(1, 6, 0.5);
  passes.add(1, 4, 0.5);
  EXPECT_DOUBLE_EQ(steps.curve(1).at(6), 0.5);
  EXPECT_DOUBLE_EQ(steps.curve(1).at(1), 0.5 * (24 + 1) / (24 + 6));
  EXPECT_LT(steps.curve(1).at(12), 0.53);  // hardly more: it is worth a try
  EXPECT_DOUBLE_EQ(passes.curve(1).at(1), 0.125);
}

TEST(TimeTable, PointsAreJoinedAndGoOnBeyondTheLast) {
  TimeTable table(24);
  for (int i = 0; i < 2; ++i) {  // the second one makes it believed
    table.add(2, 2, 1.0);
    table.add(2, 6, 2.0);
  }
  const CostCurve curve = table.curve(2);
  EXPECT_DOUBLE_EQ(curve.at(4), 1.5);
  EXPECT_DOUBLE_EQ(curve.at(8), 2.5);
  EXPECT_DOUBLE_EQ(curve.at(1), 0.75);
}

TEST(TimeTable, ASizeWithOnePointHasTheShapeOfTheOthers) {
  TimeTable table(24);
  for (int i = 0; i < 2; ++i) {
    table.add(4, 4, 1.0);
    table.add(4, 8, 2.0);
    table.add(16, 16, 6.0);
  }
  EXPECT_DOUBLE_EQ(table.curve(16).at(8), 2.0);
  for (int i = 0; i < 40; ++i) table.add(16, 8, 3.0);  // more sequences of the same rows take longer
  EXPECT_NEAR(table.curve(16).at(8), 3.0, 1e-9);
  EXPECT_NEAR(table.curve(4).at(8), 2.0, 1e-9);
  EXPECT_NEAR(table.curve(16).at(4), 1.0, 0.1);
}

TEST(TimeTable, NeverFalls) {
  TimeTable table(24);
  for (int i = 0; i < 20; ++i) {
    table.add(1, 1, 1.1);  // noise
    table.add(1, 2, 1.0);
    table.add(1, 6, 1.2);
  }
  const CostCurve curve = table.curve(1);
  EXPECT_NEAR(curve.at(1), 1.05, 1e-9);
  EXPECT_NEAR(curve.at(2), 1.05, 1e-9);
  EXPECT_NEAR(curve.at(6), 1.2, 1e-9);
}

TEST(TimeTable, TheFirstMeasurementsCountAsTheirLeastAndAPauseHardly) {
  TimeTable table(24);
  table.add(1, 1, 100.0);
  table.add(1, 1, 1.0);
  EXPECT_DOUBLE_EQ(table.curve(1).at(1), 1.0);
  for (int i = 0; i < 8; ++i) table.add(1, 1, 1.0);
  table.add(1, 1, 1000.0);
  EXPECT_LT(table.curve(1).at(1), 1.05);
  for (int i = 0; i < 60; ++i) table.add(1, 1, 2.0);
  EXPECT_NEAR(table.curve(1).at(1), 2.0, 0.01);  // what stays is believed
}

TEST(TimeTable, AFirstMeasurementThatCannotBeIsNotBelieved) {
  TimeTable table(24);
  for (int i = 0; i < 4; ++i) table.add(1, 2, 1.0);
  table.add(1, 4, 50.0);
  EXPECT_LT(table.curve(1).at(4), 2.0);
  table.add(1, 1, 50.0);  // 2 rows take 1
  EXPECT_LE(table.curve(1).at(1), 1.0);
  table.add(1, 4, 1.5);
  EXPECT_DOUBLE_EQ(table.curve(1).at(4), 1.5);
}

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
  for (int i = 0; i < 400; ++i) verify(acceptance, shared, 3, 3, i % 2 == 0 ? 3 : 0);  // a text in runs
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
