#include "jsonl/progress.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

TEST(ProgressBar, TellsShareRatesAndTimeLeft) {
  ProgressState state;
  state.num_lines = 1234;
  state.num_tokens = 50000;
  state.bytes_done = 300;
  state.bytes_total = 1000;
  EXPECT_EQ(progress_bar(state, 10, 200),
            "[======>             ]  30%  1,234 lines, 123.4 lines/s, 5,000 tokens/s, 0:24 left");
}

TEST(ProgressBar, RatesAreOfThisRunAlone) {
  ProgressState state;
  state.num_lines = 1100;
  state.lines_before = 1000;
  state.num_failed = 3;
  state.bytes_before = 500;
  state.bytes_done = 550;
  state.bytes_total = 1000;
  EXPECT_EQ(progress_bar(state, 1, 200),
            "[===========>        ]  55%  1,100 lines, 3 failed, 100.0 lines/s, 0 tokens/s, 0:09 left");
}

TEST(ProgressBar, WithoutASizeThereIsNeitherBarNorTimeLeft) {
  ProgressState state;
  state.num_lines = 5;
  state.bytes_done = 100;
  EXPECT_EQ(progress_bar(state, 2, 200), "5 lines, 2.5 lines/s, 0 tokens/s");
}

TEST(ProgressBar, NothingDoneYetAndAllDoneAreFine) {
  ProgressState state;
  state.bytes_total = 1000;
  EXPECT_EQ(progress_bar(state, 0, 200), "[>                   ]   0%  0 lines, 0.0 lines/s, 0 tokens/s");
  state.bytes_done = 1200;  // the file has grown
  EXPECT_EQ(progress_bar(state, 4000, 200), "[====================] 100%  0 lines, 0.0 lines/s, 0 tokens/s, 0:00 left");
  state.bytes_total = 0;
  EXPECT_EQ(progress_bar(state, 1, 200), "0 lines, 0.0 lines/s, 0 tokens/s, 0:00 left");
}

TEST(ProgressBar, HoursHaveTheirPlaceAndWidthIsKept) {
  ProgressState state;
  state.bytes_done = 1;
  state.bytes_total = 3601;
  EXPECT_EQ(progress_bar(state, 3, 84), "[>                   ]   0%  0 lines, 0.0 lines/s, 0 tokens/s, 3:00:00 left");
  EXPECT_EQ(progress_bar(state, 3, 60), "  0%  0 lines, 0.0 lines/s, 0 tokens/s, 3:00:00 left");
  EXPECT_EQ(progress_bar(state, 3, 30), "  0%  0 lines, 0.0 lines/s, 0 ");
}

TEST(ProgressSummary, IsOneLineWithFailuresAndRates) {
  ProgressState state;
  state.num_lines = 200000;
  state.num_failed = 2;
  state.num_tokens = 1'000'000;
  EXPECT_EQ(progress_summary(state, 80), "200,000 lines, 2 failed, in 80.0 s (2500.0 lines/s, 12,500 tokens/s)");
  state.lines_before = 150000;
  EXPECT_EQ(progress_summary(state, 80),
            "200,000 lines (150,000 of them before), 2 failed, in 80.0 s (625.0 lines/s, 12,500 tokens/s)");
}

}  // namespace
}  // namespace mortise
