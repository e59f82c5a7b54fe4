#include "speculation/step_costs.hpp"

#include <gtest/gtest.h>

#include <vector>

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
  for (int i = 0; i < 2; ++i) {  // the second sample makes the time trusted
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

}  // namespace
}  // namespace mortise
