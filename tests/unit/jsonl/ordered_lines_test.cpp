#include "jsonl/ordered_lines.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "error.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

class OrderedLinesTest : public ::testing::Test {
 protected:
  void write_input(int count) {
    std::ofstream file(path);
    for (int i = 1; i <= count; ++i) file << "line " << i << '\n';
  }
  test::TempFolder folder;
  const std::string path = (folder.path() / "lines").string();
};

TEST_F(OrderedLinesTest, ResultsComeInTheOrderOfTheInputWhoeverIsFirst) {
  write_input(500);
  InputLines in(path, 100);
  std::mutex mutex;
  std::vector<std::pair<std::size_t, FinishLine>> open;
  std::atomic<bool> stop = false;
  std::thread worker([&] {  // finishes lines in any order
    std::mt19937 random(3);
    while (!stop) {
      std::unique_lock lock(mutex);
      if (open.empty()) continue;
      std::swap(open[random() % open.size()], open.back());
      const auto [number, finish] = std::move(open.back());
      open.pop_back();
      lock.unlock();
      finish({"result " + std::to_string(number), number % 7 == 0, number});
    }
  });
  std::size_t written = 0, most_open = 0;
  OrderedLinesEvents events;
  events.write = [&](const InputLine& line, const LineResult& result) {
    EXPECT_EQ(line.number, ++written);
    EXPECT_EQ(result.text, "result " + std::to_string(written));
    EXPECT_EQ(result.failed, written % 7 == 0);
    EXPECT_EQ(result.num_tokens, written);
  };
  events.tick = [] { return false; };
  const bool complete = run_ordered_lines(
      in, {.max_sequences = 20},
      [&](const InputLine& line, const FinishLine& finish) {
        const std::lock_guard lock(mutex);
        EXPECT_EQ(line.text, "line " + std::to_string(line.number));
        open.emplace_back(line.number, finish);
        most_open = std::max(most_open, open.size());
        return std::size_t{1};
      },
      events);
  stop = true;
  worker.join();
  EXPECT_TRUE(complete);
  EXPECT_EQ(written, 500u);
  EXPECT_LE(most_open, 20u);
  EXPECT_GT(most_open, 1u);
}

TEST_F(OrderedLinesTest, ALineThatNobodyCanFinishEndsTheRunAndIsNamed) {
  write_input(5);
  InputLines in(path, 100);
  std::size_t written = 0;
  OrderedLinesEvents events;
  events.write = [&](const InputLine&, const LineResult&) { ++written; };
  events.tick = [] { return false; };
  const auto start = [](const InputLine& line, const FinishLine& finish) {
    if (line.number != 3) finish({});
    return std::size_t{1};
  };
  try {
    run_ordered_lines(in, {}, start, events);
    FAIL() << "line 3 has no result";  // a run that waits for it ends in the test's time-out
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "line 3: its answer could not be produced");
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
  }
  EXPECT_EQ(written, 2u);
}

// Lines are finished by hand, from tick(), which the run calls while it waits.
struct ByHand {
  std::map<std::size_t, FinishLine> open;
  std::size_t most_open = 0, written = 0;

  bool run(InputLines& in, const OrderedLinesLimits& limits, std::size_t sequences, std::size_t result_bytes) {
    OrderedLinesEvents events;
    int quiet = 0;
    events.write = [&](const InputLine&, const LineResult&) { ++written; };
    events.tick = [&] {
      if (++quiet < 2 || open.empty()) return false;  // two ticks without a start: as many lines as may are at work
      quiet = 0;
      const auto last = std::prev(open.end());  // the newest first: results wait for those before them
      const FinishLine finish = last->second;
      open.erase(last);
      finish({std::string(result_bytes, 'x'), false, 0});
      return false;
    };
    return run_ordered_lines(
        in, limits,
        [&](const InputLine& line, const FinishLine& finish) {
          quiet = 0;
          open[line.number] = finish;
          most_open = std::max(most_open, open.size());
          return sequences;
        },
        events);
  }
};

TEST_F(OrderedLinesTest, SequencesAtWorkAreBounded) {
  write_input(6);
  InputLines in(path, 100);
  ByHand lines;
  EXPECT_TRUE(lines.run(in, {.max_sequences = 8}, /*sequences=*/4, 0));
  EXPECT_EQ(lines.most_open, 2u);
  EXPECT_EQ(lines.written, 6u);
}

TEST_F(OrderedLinesTest, ALineAboveTheBoundsRunsAlone) {
  write_input(3);
  InputLines in(path, 100);
  ByHand lines;
  EXPECT_TRUE(lines.run(in, {.max_sequences = 8}, /*sequences=*/100, 0));
  EXPECT_EQ(lines.most_open, 1u);
  EXPECT_EQ(lines.written, 3u);
}

TEST_F(OrderedLinesTest, BytesThatWaitAreBounded) {
  write_input(6);
  InputLines in(path, 100);
  ByHand lines;
  EXPECT_TRUE(lines.run(in, {.max_bytes = 20}, /*sequences=*/1, /*result_bytes=*/1000));
  EXPECT_EQ(lines.most_open, 3u);  // 7 bytes each: the third passes the bound, the fourth would start beyond it
  EXPECT_EQ(lines.written, 6u);
}

TEST_F(OrderedLinesTest, ATickThatSaysSoEndsTheRunAndLateResultsDoNoHarm) {
  write_input(10);
  InputLines in(path, 100);
  std::vector<FinishLine> open;
  OrderedLinesEvents events;
  events.write = [](const InputLine&, const LineResult&) { ADD_FAILURE() << "nothing was finished"; };
  events.tick = [&] { return open.size() == 3; };
  EXPECT_FALSE(run_ordered_lines(
      in, {},
      [&](const InputLine&, const FinishLine& finish) {
        open.push_back(finish);
        return std::size_t{1};
      },
      events));
  for (const FinishLine& finish : open) finish({"late", false, 0});
}

TEST_F(OrderedLinesTest, ErrorsOfStartAndWriteEndTheRun) {
  write_input(3);
  OrderedLinesEvents events;
  events.tick = [] { return false; };
  events.write = [](const InputLine&, const LineResult&) { fail("full"); };
  const auto finish_at_once = [](const InputLine&, const FinishLine& finish) {
    finish({});
    return std::size_t{0};
  };
  InputLines first(path, 100), second(path, 100);
  EXPECT_THROW(run_ordered_lines(first, {}, finish_at_once, events), Error);
  EXPECT_THROW(run_ordered_lines(
                   second, {}, [](const InputLine&, const FinishLine&) -> std::size_t { fail("no model"); }, events),
               Error);
}

}  // namespace
}  // namespace mortise
