#include "json/is_there.hpp"

#include <stdlib.h>

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

class IsThere : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "mortise-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(IsThere, TellsWhatIsThereFromWhatIsNot) {
  std::ofstream(folder_ / "file") << "text";
  EXPECT_TRUE(is_there(folder_ / "file"));
  EXPECT_TRUE(is_there(folder_));
  EXPECT_FALSE(is_there(folder_ / "none"));
  EXPECT_FALSE(is_there(folder_ / "none" / "none"));
  EXPECT_FALSE(is_there(folder_ / "file" / "none"));
}

TEST_F(IsThere, WhatCannotBeToldIsAnError) {
  const fs::path loop = folder_ / "loop";
  fs::create_symlink("loop", loop);
  try {
    is_there(loop);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), loop.string() +
                                ": cannot be looked at: Too many levels of symbolic links; check its "
                                "permissions and links");
  }
}

}  // namespace
}  // namespace mortise
