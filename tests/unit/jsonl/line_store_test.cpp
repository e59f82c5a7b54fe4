#include "jsonl/line_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "error.hpp"
#include "temp_folder.hpp"

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

class TmpDir {
 public:
  explicit TmpDir(const std::filesystem::path& folder) { ::setenv("TMPDIR", folder.c_str(), 1); }
  ~TmpDir() { ::unsetenv("TMPDIR"); }
};

TEST(LineStore, LeavesNoFileBehind) {
  const test::TempFolder folder;
  const TmpDir used(folder.path());
  LineStore store;
  store.add("text");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(LineStore, AFolderThatIsNotThereIsAnError) {
  const test::TempFolder folder;
  const TmpDir used(folder.path() / "missing");
  try {
    LineStore();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no file for results can be made there (No such file or directory)"));
  }
}

}  // namespace
}  // namespace mortise
