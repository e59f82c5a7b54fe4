#include "jsonl/input_lines.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <vector>

#include "error.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

class InputLinesTest : public ::testing::Test {
 protected:
  std::vector<InputLine> read(const std::string& content, std::size_t max_line_bytes = 100) {
    std::ofstream(path) << content;
    InputLines lines(path, max_line_bytes);
    std::vector<InputLine> all;
    InputLine line;
    while (lines.wait_next(line)) all.push_back(line);
    return all;
  }
  test::TempFolder folder;
  const std::string path = (folder.path() / "lines").string();
};

TEST_F(InputLinesTest, LinesComeWithTheirNumberAndOffsets) {
  const auto lines = read("one\n\n \t\r\ntwo\r\nthree");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_EQ(lines[1].text, "two");
  EXPECT_EQ(lines[2].text, "three");
  EXPECT_EQ(lines[1].number, 4u);
  EXPECT_EQ(lines[1].begin, 9u);
  EXPECT_EQ(lines[1].end, 14u);
  EXPECT_EQ(lines[2].end, 19u);
  EXPECT_TRUE(lines[1].terminated);
  EXPECT_FALSE(lines[2].terminated);
}

TEST_F(InputLinesTest, ANewlineAtTheEndBeginsNoLine) {
  EXPECT_EQ(read("one\n").size(), 1u);
  EXPECT_EQ(read("").size(), 0u);
  EXPECT_EQ(read("\n\n").size(), 0u);
}

TEST_F(InputLinesTest, AByteOrderMarkIsPassedOverInTheFirstLineAlone) {
  const auto lines = read("\xef\xbb\xbfone\n\xef\xbb\xbftwo\n");
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_EQ(lines[1].text, "\xef\xbb\xbftwo");
}

TEST_F(InputLinesTest, ALineAtTheLimitIsWholeAndOneAboveItIsCut) {
  const auto lines =
      read(std::string(100, 'a') + "\n" + std::string(101, 'b') + "\n" + std::string(50'000, 'c') + "\nd");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].text, std::string(100, 'a'));
  EXPECT_FALSE(lines[0].too_long);
  EXPECT_TRUE(lines[1].too_long);
  EXPECT_EQ(lines[1].text, std::string(100, 'b'));
  EXPECT_TRUE(lines[2].too_long);
  EXPECT_EQ(lines[2].num_bytes(), 50'001u);
  EXPECT_EQ(lines[3].text, "d");
  EXPECT_FALSE(lines[3].too_long);
}

TEST_F(InputLinesTest, LinesLongerThanAReadAreWhole) {
  const std::string big(300'000, 'x');
  const auto lines = read(big + "\n" + big + "y\n", 1 << 20);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, big);
  EXPECT_EQ(lines[1].text, big + "y");
}

TEST_F(InputLinesTest, ALineThatIsPutBackComesAgain) {
  std::ofstream(path) << "one\ntwo\n";
  InputLines lines(path, 100);
  InputLine line;
  ASSERT_TRUE(lines.wait_next(line));
  lines.put_back(std::move(line));
  InputLine again;
  ASSERT_TRUE(lines.wait_next(again));
  EXPECT_EQ(again.text, "one");
  EXPECT_EQ(again.number, 1u);
  ASSERT_TRUE(lines.wait_next(again));
  EXPECT_EQ(again.text, "two");
}

TEST_F(InputLinesTest, AFileKnowsItsSizeAndWhenItWasModified) {
  std::ofstream(path) << "12345";
  InputLines lines(path, 100);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines.modified(), status.st_mtim.tv_sec);
}

TEST_F(InputLinesTest, APipeWithoutNewsSaysSoAndDoesNotWait) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread opener([&] { std::ofstream(path) << "one\ntw"; });  // opening waits for the other side
  InputLines lines(path, 100);
  opener.join();
  EXPECT_EQ(lines.size(), std::nullopt);
  InputLine line;
  ASSERT_EQ(lines.next(line), InputLines::Next::kLine);
  EXPECT_EQ(line.text, "one");
  ASSERT_EQ(lines.next(line), InputLines::Next::kLine);  // the writer is gone, so the rest is a whole line
  EXPECT_EQ(line.text, "tw");

  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  InputLines open_pipe("/dev/fd/" + std::to_string(ends[0]), 100);
  EXPECT_EQ(open_pipe.next(line), InputLines::Next::kNotYet);
  ASSERT_EQ(::write(ends[1], "a", 1), 1);
  EXPECT_EQ(open_pipe.next(line), InputLines::Next::kNotYet);  // half a line
  ASSERT_EQ(::write(ends[1], "b\n", 2), 2);
  ASSERT_EQ(open_pipe.next(line), InputLines::Next::kLine);
  EXPECT_EQ(line.text, "ab");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(InputLinesTest, WhatCannotBeReadIsNamed) {
  const auto message = [](const std::string& name) {
    try {
      InputLines lines(name, 100);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(path), path +
                               ": cannot be read: No such file or directory; give an existing file, or - for "
                               "standard input");
  EXPECT_EQ(message(folder.path().string()), folder.path().string() + ": is a directory; give a file of JSON lines");
}

}  // namespace
}  // namespace mortise
