#include "cli/repl/history_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "test_support.hpp"
#include "variables.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  ::stat(path.c_str(), &status);
  return status.st_mode & 07777;
}

TEST(HistoryFile, KeepsEntriesOfSeveralLines) {
  const TempFolder dir;
  HistoryFile(dir.path() / "history").append("one\ntwo \\ \"\"\"\ttab");
  HistoryFile(dir.path() / "history").append("é 😀");
  EXPECT_THAT(HistoryFile(dir.path() / "history").load(), ElementsAre("one\ntwo \\ \"\"\"\ttab", "é 😀"));
}

TEST(HistoryFile, IsMadeWhenTheFirstEntryIsKeptAndPrivate) {
  const TempFolder dir;
  const fs::path path = dir.path() / "a" / "b" / "history";
  HistoryFile file(path);
  EXPECT_THAT(file.load(), IsEmpty());
  EXPECT_FALSE(fs::exists(dir.path() / "a"));
  file.append("x");
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(mode_of(dir.path() / "a"), 0700u);
}

TEST(HistoryFile, AnOlderFileBecomesPrivate) {
  const TempFolder dir;
  const fs::path path = dir.path() / "history";
  test::write_text(path, "\"old\"\n");
  ::chmod(path.c_str(), 0644);
  HistoryFile(path).append("new");
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_THAT(HistoryFile(path).load(), ElementsAre("old", "new"));
}

TEST(HistoryFile, IsBounded) {
  const TempFolder dir;
  const fs::path path = dir.path() / "history";
  HistoryFile file(path);
  const std::string entry(10000, 'x');
  for (int i = 0; i < 2000; ++i) file.append(std::to_string(i) + entry);  // 20 MB
  EXPECT_LT(fs::file_size(path), HistoryFile::kMaxFileBytes + 20000);
  EXPECT_EQ(mode_of(path), 0600u);
  const auto entries = file.load();
  EXPECT_LE(entries.size(), HistoryFile::kMaxEntries);
  EXPECT_GE(entries.size(), 200u);  // 0: the newest went, not the oldest
  EXPECT_EQ(entries.back(), "1999" + entry);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
}

TEST(HistoryFile, GivesTheNewestThousand) {
  const TempFolder dir;
  HistoryFile file(dir.path() / "history");
  for (int i = 0; i < 1010; ++i) file.append(std::to_string(i));
  const auto entries = file.load();
  EXPECT_EQ(entries.size(), 1000u);
  EXPECT_EQ(entries.front(), "10");
  EXPECT_EQ(entries.back(), "1009");
}

TEST(HistoryFile, APasteOfManyPagesIsNotKept) {
  const TempFolder dir;
  HistoryFile file(dir.path() / "history");
  file.append(std::string(HistoryFile::kMaxEntryBytes, 'x'));
  file.append("short");
  EXPECT_THAT(file.load(), ElementsAre("short"));
}

TEST(HistoryFile, PassesOverWhatIsNoEntry) {
  const TempFolder dir;
  const fs::path path = dir.path() / "history";
  test::write_text(path, "_HiStOrY_V2_\n{\"a\": 1}\n\n\"good\"\n\"\xff\"\n\"nul\\u0000\"\n[[[[\n\"half");
  HistoryFile file(path);
  EXPECT_THAT(file.load(), ElementsAre("good"));
  file.append("next");  // after half a line, which must not swallow it
  EXPECT_THAT(file.load(), ElementsAre("good", "next"));
}

TEST(HistoryFile, AHugeFileIsReadFromItsEnd) {
  const TempFolder dir;
  const fs::path path = dir.path() / "history";
  test::write_text(path, "");
  fs::resize_file(path, std::uintmax_t{1} << 36);  // sparse
  test::write_text(dir.path() / "tail", "");
  {
    std::ofstream stream(path, std::ios::app);
    stream << "\n\"last\"\n";
  }
  EXPECT_THAT(HistoryFile(path).load(), ElementsAre("last"));
}

TEST(HistoryFile, WhatCannotBeWrittenIsAnError) {
  const TempFolder dir;
  EXPECT_THAT(error_of([] { HistoryFile("/dev/null/x/history").append("x"); }), EndsWith(": Not a directory"));
  EXPECT_THAT(error_of([&] { HistoryFile(dir.path()).append("x"); }), EndsWith(": Is a directory"));
  EXPECT_THAT(error_of([&] { HistoryFile(dir.path()).load(); }), EndsWith(": is not a file"));
  EXPECT_EQ(error_of([] { HistoryFile("/dev/full").append("x"); }), "/dev/full: is not a file");
  const fs::path pipe = dir.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { HistoryFile(pipe).load(); }), pipe.string() + ": is not a file");
}

TEST(HistoryFile, LiesWhereTheEnvironmentSays) {
  const auto path_for = [](const std::optional<std::string>& state, const std::optional<std::string>& home) {
    const test::ScopedVariable state_home("XDG_STATE_HOME", state);
    const test::ScopedVariable own_home("HOME", home);
    return HistoryFile::standard_path();
  };
  EXPECT_EQ(path_for("/state", "/home/me"), "/state/mortise/history");
  EXPECT_EQ(path_for(std::nullopt, "/home/me"), "/home/me/.local/state/mortise/history");
  EXPECT_EQ(path_for("", "/home/me"), "/home/me/.local/state/mortise/history");
  EXPECT_EQ(path_for("relative", "/home/me"), "/home/me/.local/state/mortise/history");  // XDG: to be ignored
  EXPECT_EQ(path_for(std::nullopt, std::nullopt), std::nullopt);
}

}  // namespace
}  // namespace mortise
