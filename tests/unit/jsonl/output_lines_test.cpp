#include "jsonl/output_lines.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "error.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

class OutputLinesTest : public ::testing::Test {
 protected:
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  test::TempFolder folder;
  const std::string path = (folder.path() / "out").string();
};

TEST_F(OutputLinesTest, EachLineIsInTheFileAtOnce) {
  OutputLines out(path);
  EXPECT_EQ(out.existing(), nullptr);
  EXPECT_TRUE(out.can_continue());
  out.start(0);
  out.write("one");
  EXPECT_EQ(content(), "one\n");
  out.write("two");
  EXPECT_EQ(content(), "one\ntwo\n");
}

TEST_F(OutputLinesTest, WhatIsThereIsReadAndContinuedBehindWhatIsKept) {
  std::ofstream(path) << "one\ntwo\nthr";
  OutputLines out(path);
  ASSERT_NE(out.existing(), nullptr);
  InputLine line;
  ASSERT_TRUE(out.existing()->wait_next(line));
  EXPECT_EQ(line.text, "one");
  EXPECT_EQ(content(), "one\ntwo\nthr");  // nothing changes before start()
  out.start(line.end);
  out.write("2");
  EXPECT_EQ(content(), "one\n2\n");
}

TEST_F(OutputLinesTest, OneWriterAtATime) {
  const OutputLines first(path);
  try {
    const OutputLines second(path);
    FAIL() << "two writers of one file";
  } catch (const Error& error) {
    EXPECT_EQ(
        error.what(),
        path + ": another run is already writing this file (wait for its end), or this run is (give another file)");
  }
}

TEST_F(OutputLinesTest, TheSameFileIsKnownByAnotherName) {
  std::ofstream(path) << "one\n";
  std::filesystem::create_symlink(path, folder.path() / "link");
  std::ofstream(folder.path() / "other") << "one\n";
  const OutputLines out(path);
  EXPECT_TRUE(out.is_same_file(InputLines((folder.path() / "link").string(), 10).fd()));
  EXPECT_FALSE(out.is_same_file(InputLines((folder.path() / "other").string(), 10).fd()));
}

TEST_F(OutputLinesTest, ADeviceIsWrittenAndNotContinued) {
  OutputLines out("/dev/full");
  EXPECT_EQ(out.existing(), nullptr);
  EXPECT_FALSE(out.can_continue());
  out.start(0);
  try {
    out.write("one");
    FAIL() << "a full disk";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/dev/full: cannot be written: No space left on device");
  }
}

}  // namespace
}  // namespace mortise
