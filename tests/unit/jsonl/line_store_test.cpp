#include "jsonl/line_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "error.hpp"
#include "temp_folder.hpp"
#include "variables.hpp"

namespace mortise {
namespace {

TEST(LineStore, GivesBackEachTextInAnyOrder) {
  LineStore store;
  const std::string large(300000, 'x');
  store.add("first");
  store.add("");
  store.add(large);
  store.add(std::string("with\0zero\n", 10));
  ASSERT_EQ(store.size(), 4u);
  EXPECT_EQ(store.read(3), std::string("with\0zero\n", 10));
  EXPECT_EQ(store.read(0), "first");
  EXPECT_EQ(store.read(2), large);
  EXPECT_EQ(store.read(1), "");
}

TEST(LineStore, LeavesNoFileBehind) {
  const test::TempFolder folder;
  const test::ScopedVariable used("TMPDIR", folder.path().string());
  LineStore store;
  store.add("text");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(LineStore, AFolderThatIsNotThereIsAnError) {
  const test::TempFolder folder;
  const test::ScopedVariable used("TMPDIR", (folder.path() / "missing").string());
  try {
    LineStore();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("a file for results cannot be made there (No such file or directory)"));
  }
}

// In a process of its own: no file of it may grow beyond the limit.
void fill_a_store_with_a_limit() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {1000, 1000};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  LineStore store;
  store.add(std::string(900, 'x'));
  try {
    store.add(std::string(900, 'x'));
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(7);
  }
}

TEST(LineStoreDeathTest, AFileThatCannotGrowIsAnError) {
  EXPECT_EXIT(fill_a_store_with_a_limit(), testing::ExitedWithCode(7),
              "results cannot be stored there \\(File too large\\)");
}

}  // namespace
}  // namespace mortise
