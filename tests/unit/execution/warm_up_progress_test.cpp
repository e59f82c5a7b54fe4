#include "execution/warm_up_progress.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

TEST(WarmUpProgress, SaysHowManyStepsOfHowManyAndForHowLong) {
  EXPECT_EQ(warm_up_text("NVIDIA H200", 5, 15, 2.2), "NVIDIA H200: trying steps of all sizes, 5 of 15, 2 s");
}

TEST(WarmUpProgress, WritesNothingInAShortStart) {
  testing::internal::CaptureStderr();
  {
    WarmUpProgress progress("a device", 2);
    progress.step_done();
    progress.step_done();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace mortise
