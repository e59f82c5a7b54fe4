#include "engine/starvation.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "mortise/scheduler.h"

namespace mortise {
namespace {

constexpr std::int32_t kWaits = MORTISE_SEQ_WAITING;

SequenceNeed ten_rows(std::size_t) {
  return {10, 1};
}

TEST(StarvationWatch, WhoIsPassedByMoreRowsThanTheBoundStarves) {
  StarvationWatch watch({1000, 100});
  for (std::uint64_t step = 0; step < 11; ++step) {
    const std::vector<std::uint64_t> ids = {1, 2 + step};
    const std::vector<std::int32_t> priorities = {0, 0}, states = {kWaits, kWaits};
    const std::vector<char> scheduled = {0, 1};
    EXPECT_EQ(watch.look({ids, priorities, states, scheduled, 0, 0, 0}, ten_rows).has_value(), step == 10);
  }
}

TEST(StarvationWatch, WaitingBehindOlderOnesAndBetterPrioritiesIsNoStarvation) {
  StarvationWatch watch({5, 100});
  for (std::uint64_t step = 0; step < 50; ++step) {
    const std::vector<std::uint64_t> ids = {1, 2, 3 + step};
    const std::vector<std::int32_t> priorities = {0, 1, 0}, states = {MORTISE_SEQ_RUNNING, kWaits, kWaits};
    const std::vector<char> scheduled = {1, 0, 1};
    EXPECT_FALSE(watch.look({ids, priorities, states, scheduled, 9, 9, 9}, ten_rows).has_value());
  }
}

TEST(StarvationWatch, WithRoomLeftFewPlansAreEnoughOnceAYoungerOneHasPassed) {
  StarvationWatch watch({5, 1000});
  const std::vector<std::uint64_t> ids = {1, 2};
  const std::vector<std::int32_t> priorities = {0, 0}, first = {kWaits, kWaits}, then = {kWaits, MORTISE_SEQ_RUNNING};
  const std::vector<char> none = {0, 0}, second = {0, 1};
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(watch.look({ids, priorities, first, none, 9, 9, 9}, ten_rows)) << "nobody has passed it";
  }
  EXPECT_FALSE(watch.look({ids, priorities, first, second, 9, 9, 9}, ten_rows));
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(watch.look({ids, priorities, then, second, 9, 0, 9}, ten_rows)) << "there was no place";
    EXPECT_FALSE(watch.look({ids, priorities, then, second, 9, 9, 0}, ten_rows)) << "there was no block";
  }
  int left_out = 1;
  while (!watch.look({ids, priorities, then, second, 9, 9, 9}, ten_rows)) ++left_out;
  EXPECT_EQ(left_out, 4);
}

}  // namespace
}  // namespace mortise
