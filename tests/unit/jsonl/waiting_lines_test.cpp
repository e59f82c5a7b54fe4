#include "jsonl/waiting_lines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "error.hpp"
#include "jsonl/ordered_lines.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

const nlohmann::json kHead = {{"command", "test"}, {"created", 7}};

class WaitingLinesTest : public ::testing::Test {
 protected:
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }
  // What a run that kept three results leaves when it is killed.
  std::string killed() {
    std::string left;
    {
      WaitingLines lines(path);
      lines.start(kHead);
      for (const std::size_t line : {5, 3, 9}) EXPECT_TRUE(lines.keep(line, result(line)));
      left = content();
    }
    write(left);
    return left;
  }
  static std::string result(std::size_t line) { return R"({"id": )" + std::to_string(line) + R"(, "text":"a\n  b" })"; }

  test::TempFolder folder;
  const std::string path = (folder.path() / "out.waiting").string();
};

TEST_F(WaitingLinesTest, NoFileUntilAResultWaitsAndNoneWhenNoneWaits) {
  {
    WaitingLines lines(path);
    EXPECT_EQ(lines.head(), std::nullopt);
    lines.start(kHead);
    EXPECT_FALSE(fs::exists(path));
    EXPECT_TRUE(lines.keep(4, result(4)));
    EXPECT_TRUE(fs::exists(path));
    lines.drop_up_to(4);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(WaitingLinesTest, ResultsComeBackByteForByte) {
  killed();
  WaitingLines lines(path);
  EXPECT_EQ(lines.head()->at("created"), 7);
  EXPECT_EQ(lines.size(), 3u);
  lines.start({{"created", 8}});  // that of the run that began holds
  EXPECT_EQ(lines.read(3), result(3));
  EXPECT_EQ(lines.read(5), result(5));
  EXPECT_EQ(lines.read(9), result(9));
  EXPECT_EQ(lines.read(4), std::nullopt);
  EXPECT_TRUE(lines.keep(4, result(4)));
  EXPECT_EQ(lines.read(4), result(4));
  lines.drop_up_to(4);
  EXPECT_EQ(lines.read(3), std::nullopt);
  EXPECT_EQ(lines.size(), 2u);
}

TEST_F(WaitingLinesTest, AKillAtAnyByteLeavesTheWholeLinesBeforeIt) {
  const std::string whole = killed();
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    write(whole.substr(0, cut));
    WaitingLines lines(path);
    const auto num_lines = static_cast<std::size_t>(std::count(whole.begin(), whole.begin() + cut, '\n'));
    ASSERT_EQ(lines.size(), num_lines == 0 ? 0 : num_lines - 1) << cut;
    lines.start(kHead);
    ASSERT_TRUE(lines.keep(100, result(100))) << cut;
    ASSERT_EQ(lines.read(100), result(100)) << cut;
    ASSERT_EQ(WaitingLines(path).size(), lines.size()) << cut;
    lines.remove();
    ASSERT_FALSE(fs::exists(path)) << cut;
  }
}

TEST_F(WaitingLinesTest, WhatFollowsDamageIsNotTaken) {
  const std::string whole = killed();
  const std::size_t second = whole.find("{\"line\":3");
  for (const char* damage : {"{\"line\":x", "{\"lime\":3", "\n\"line\":3", "{\"line\" 3"}) {
    write(std::string(whole).replace(second, 9, damage));
    WaitingLines lines(path);
    EXPECT_EQ(lines.size(), 1u) << damage;
    lines.start(kHead);
    EXPECT_EQ(lines.read(5), result(5));
    EXPECT_EQ(content(), whole.substr(0, second));  // else a later run would read it
  }
}

TEST_F(WaitingLinesTest, OfALineThatRanAgainTheLastResultCounts) {
  const std::string whole = killed();
  {
    WaitingLines lines(path);
    lines.start(kHead);
    lines.drop(3);
    EXPECT_TRUE(lines.keep(3, R"({"id":3,"again":true})"));
    write(content());
  }
  WaitingLines lines(path);
  lines.start(kHead);
  EXPECT_EQ(lines.read(3), R"({"id":3,"again":true})");
}

TEST_F(WaitingLinesTest, AFileOfSomebodyElseIsLeftAlone) {
  for (const char* text : {"my notes\n", "{}\n", "{\"mortise_waiting\":1,\n", "x"}) {
    write(text);
    EXPECT_THROW(WaitingLines{path}, Error) << text;
    EXPECT_EQ(content(), text);
  }
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THROW(WaitingLines{path}, Error);
  fs::remove(path);
  fs::create_symlink(folder.path() / "elsewhere", path);
  EXPECT_THROW(WaitingLines{path}, Error);
}

TEST_F(WaitingLinesTest, WhereNoFileCanBeMadeTheCallerKeepsTheResult) {
  WaitingLines lines((folder.path() / "no" / "folder").string());
  lines.start(kHead);
  EXPECT_FALSE(lines.keep(2, result(2)));
  EXPECT_FALSE(lines.contains(2));
}

// A line that takes long and many that are quick: what is in the file without waiting must not stay for good.
TEST_F(WaitingLinesTest, TheFileDoesNotGrowWithTheOutput) {
  WaitingLines lines(path);
  lines.start(kHead);
  const std::string large = '"' + std::string(std::size_t{1} << 20, 'x') + '"';
  std::uintmax_t most = 0;
  for (std::size_t line = 1; line <= 120; ++line) {
    ASSERT_TRUE(lines.keep(line, large));
    if (line > 2) lines.drop_up_to(line - 2);  // two lines are always kept
    most = std::max(most, fs::file_size(path));
  }
  EXPECT_LT(most, std::uintmax_t{80} << 20);
  EXPECT_EQ(lines.read(119), large);
  EXPECT_EQ(lines.read(120), large);
  EXPECT_TRUE(WaitingLines(path).contains(119));  // in the file that is there now
  EXPECT_TRUE(WaitingLines(path).contains(120));
}

class OrderedLinesThatWait : public WaitingLinesTest {
 protected:
  // Once `num_started` lines are at work, finishes those of `order`; then lets the run end, or stops it.
  std::string run(std::size_t num_started, const std::vector<std::size_t>& order, bool stop,
                  std::vector<std::size_t>& started) {
    const std::string in_path = folder.write("in", "1\n2\n3\n4\n5\n").string();
    InputLines in(in_path, 100);
    WaitingLines waiting(path);
    waiting.start(kHead);
    std::map<std::size_t, FinishLine> open;
    std::string out;
    std::size_t next = 0;
    OrderedLinesEvents events;
    events.write = [&](const InputLine&, const LineResult& result) { out += result.text + '\n'; };
    events.tick = [&] {
      if (open.size() < num_started) return false;
      if (next == order.size()) return stop;
      open.at(order[next])({result(order[next]), false, 0});
      ++next;
      return false;
    };
    const auto start = [&](const InputLine& line, const FinishLine& finish) -> std::size_t {
      if (auto text = waiting.read(line.number)) {
        finish({*text, false, 0, true});
        return 0;
      }
      started.push_back(line.number);
      open[line.number] = finish;
      return 1;
    };
    run_ordered_lines(in, {}, start, events, &waiting);
    return out;
  }
};

TEST_F(OrderedLinesThatWait, AreKeptWhenTheRunEndsAndNotRunAgain) {
  std::vector<std::size_t> started;
  EXPECT_EQ(run(5, {4, 2, 5}, /*stop=*/true, started), "");
  EXPECT_EQ(started.size(), 5u);
  EXPECT_EQ(WaitingLines(path).size(), 3u);
  started.clear();
  EXPECT_EQ(run(2, {1, 3}, /*stop=*/false, started),
            result(1) + '\n' + result(2) + '\n' + result(3) + '\n' + result(4) + '\n' + result(5) + '\n');
  EXPECT_EQ(started, (std::vector<std::size_t>{1, 3}));
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace mortise
