#include "speculation/step_costs.hpp"

#include <gtest/gtest.h>

#include "speculation/acceptance.hpp"

namespace mortise {
namespace {

TEST(TimeTable, KnowsNothingAtFirst) {
  EXPECT_EQ(TimeTable().at(4, 4), std::nullopt);
}

TEST(TimeTable, OnePointIsFlat) {
  TimeTable table;
  table.add(4, 8, 0.5);
  EXPECT_EQ(table.at(4, 4), 0.5);
  EXPECT_EQ(table.at(4, 100), 0.5);
  EXPECT_EQ(table.at(60, 60), 0.5);
}

TEST(TimeTable, PointsAreJoinedAndGoOnBeyondTheLast) {
  TimeTable table;
  table.add(2, 2, 1.0);
  table.add(2, 6, 2.0);
  EXPECT_DOUBLE_EQ(*table.at(2, 4), 1.5);
  EXPECT_DOUBLE_EQ(*table.at(2, 8), 2.5);
  table.add(2, 1, 0.9);
  EXPECT_NEAR(*table.at(2, 1), 0.9, 1e-12);
}

TEST(TimeTable, ASizeWithOnePointHasTheShapeOfTheNearestOneWithMore) {
  TimeTable table;
  table.add(4, 4, 1.0);
  table.add(4, 8, 2.0);
  table.add(5, 8, 3.0);
  EXPECT_DOUBLE_EQ(*table.at(5, 4), 1.5);
}

TEST(TimeTable, TheFirstMeasurementsCountAsTheirLeastAndAPauseHardly) {
  TimeTable table;
  table.add(1, 1, 100.0);
  table.add(1, 1, 1.0);
  EXPECT_DOUBLE_EQ(*table.at(1, 1), 1.0);
  for (int i = 0; i < 5; ++i) table.add(1, 1, 1.0);
  table.add(1, 1, 1000.0);
  EXPECT_LT(*table.at(1, 1), 1.05);
  for (int i = 0; i < 60; ++i) table.add(1, 1, 2.0);
  EXPECT_NEAR(*table.at(1, 1), 2.0, 0.01);  // what stays is believed
}

TEST(Acceptance, ComesFromThePriorToWhatIsSeenAndFollowsAChange) {
  Acceptance acceptance;
  EXPECT_DOUBLE_EQ(acceptance.rate(0.4), 0.4);
  for (int i = 0; i < 50; ++i) acceptance.add(4, 4, 4);
  EXPECT_GT(acceptance.rate(0.4), 0.95);
  for (int i = 0; i < 50; ++i) acceptance.add(4, 4, 0);
  EXPECT_LT(acceptance.rate(0.4), 0.3);
  EXPECT_GT(acceptance.yield(), 0.99);
  for (int i = 0; i < 100; ++i) acceptance.add(4, 0, 0);
  EXPECT_LT(acceptance.yield(), 0.03);
}

TEST(Acceptance, SharedRateIsThatOfADraftWhosePredecessorsStood) {
  SharedAcceptance shared;
  for (int i = 0; i < 300; ++i) shared.add(3, i % 2 == 0 ? 3 : 0);  // of 600: 450 stand, 150 do not
  EXPECT_NEAR(shared.rate(), 0.75, 0.08);
}

}  // namespace
}  // namespace mortise
