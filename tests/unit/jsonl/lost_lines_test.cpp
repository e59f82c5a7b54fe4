#include "jsonl/lost_lines.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace mortise {
namespace {

TEST(LostLines, ALineWhoseResultNobodyCanMakeIsLost) {
  const LostLines lost;
  FinishLine kept = lost.watch([](LineResult) {}, 7);
  EXPECT_EQ(lost.first(), std::nullopt);
  const FinishLine copy = kept;
  kept = nullptr;
  EXPECT_EQ(lost.first(), std::nullopt);  // 7: the copy can still make it
  lost.watch([](LineResult) {}, 9);       // the front end threw it away
  EXPECT_EQ(lost.first(), 9u);
  lost.watch([](LineResult) {}, 12);
  EXPECT_EQ(lost.first(), 9u);
}

TEST(LostLines, AFinishedLineIsNotLost) {
  const LostLines lost;
  int num_finished = 0;
  lost.watch([&](LineResult) { ++num_finished; }, 1)({});
  EXPECT_EQ(num_finished, 1);
  EXPECT_EQ(lost.first(), std::nullopt);
}

TEST(LostLines, ALineWhoseResultIsNotTakenIsLost) {
  const LostLines lost;
  EXPECT_THROW(lost.watch([](LineResult) { throw std::runtime_error("no memory"); }, 3)({}), std::runtime_error);
  EXPECT_EQ(lost.first(), 3u);  // none: the run waits for it for ever
}

TEST(LostLines, AFinisherMayOutliveTheRun) {
  FinishLine finish;
  {
    const LostLines lost;
    finish = lost.watch([](LineResult) {}, 1);
  }
  finish = nullptr;
}

}  // namespace
}  // namespace mortise
