#include "environment.hpp"

#include <gtest/gtest.h>

#include <map>

#include "variables.hpp"

namespace mortise::environment {
namespace {

// Sets variables (nullptr: none of that name) and puts them back at the end.
class EnvironmentTest : public testing::Test {
 protected:
  void set(const char* variable, const char* value) {
    before_.try_emplace(variable, test::variable(variable));
    test::set_variable(variable, value == nullptr ? std::nullopt : std::optional<std::string>(value));
  }
  void TearDown() override {
    for (const auto& [variable, value] : before_) test::set_variable(variable.c_str(), value);
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(EnvironmentTest, AnEmptyVariableCountsAsNone) {
  set(kLog, "debug");
  EXPECT_EQ(read(kLog), "debug");
  set(kLog, "");
  EXPECT_EQ(read(kLog), std::nullopt);
  set(kLog, nullptr);
  EXPECT_EQ(read(kLog), std::nullopt);
  set("TMPDIR", "");
  EXPECT_EQ(temporary_folder(), "/tmp");
  set("TMPDIR", "/var/tmp");
  EXPECT_EQ(temporary_folder(), "/var/tmp");
}

TEST_F(EnvironmentTest, CacheAndStateLieInTheHomeUnlessVariablesSayOtherwise) {
  set("HOME", "/home/ann");
  set("XDG_CACHE_HOME", nullptr);
  set("XDG_STATE_HOME", "");
  EXPECT_EQ(cache_folder(), "/home/ann/.cache");
  EXPECT_EQ(state_folder(), "/home/ann/.local/state");
  set("XDG_CACHE_HOME", "/fast");
  set("XDG_STATE_HOME", "/kept");
  EXPECT_EQ(cache_folder(), "/fast");
  EXPECT_EQ(state_folder(), "/kept");
}

TEST_F(EnvironmentTest, RelativeFoldersAreIgnored) {
  set("HOME", "/home/ann");
  set("XDG_CACHE_HOME", "cache");
  EXPECT_EQ(cache_folder(), "/home/ann/.cache");
  set("HOME", "ann");
  EXPECT_EQ(cache_folder(), std::nullopt);
  set("HOME", nullptr);
  EXPECT_EQ(cache_folder(), std::nullopt);  // a folder: files would lie wherever the program was started
}

}  // namespace
}  // namespace mortise::environment
