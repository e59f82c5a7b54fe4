#include "json/is_there.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "error.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

class IsThere : public testing::Test {
 protected:
  const test::TempFolder temp_;
  const fs::path& folder_ = temp_.path();
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
    EXPECT_EQ(
        error.what(),
        loop.string() + ": cannot be examined: Too many levels of symbolic links; check its permissions and links");
  }
}

}  // namespace
}  // namespace mortise
