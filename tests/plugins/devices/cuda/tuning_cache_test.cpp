// Where choices are kept between starts: in the user's cache folder and beside the checkpoint, or where an option says.
#include "devices/cuda/tuning_cache.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "mortise/plugin.hpp"
#include "temp_folder.hpp"
#include "variables.hpp"

namespace mortise::cuda::tuning_cache_test {
namespace {

constexpr LinearShape kShape = {4096, 288, true, false, 16};
const AlgorithmChoice kChoice = LtConfig{66, 10, 35, 1, 0, 0, 3, 0, 2};

class TuningCacheTest : public testing::Test {
 protected:
  TuningCacheTest() {
    test::set_variable("XDG_CACHE_HOME", std::nullopt);
    test::set_variable("HOME", home_.path().string());
    host_.log = [](const mortise_host* host, int32_t, mortise_string_view text) {
      static_cast<const Host*>(host)->lines.emplace_back(view(text));
    };
  }
  ~TuningCacheTest() override {
    test::set_variable("XDG_CACHE_HOME", cache_before_);
    test::set_variable("HOME", home_before_);
  }

  // What a start finds.
  std::optional<AlgorithmChoice> found(const TuningOption& option, const std::filesystem::path& checkpoint = {}) {
    TuningCache cache(key_, option, &host_);
    if (!checkpoint.empty()) cache.add_checkpoint(checkpoint);
    return cache.find(kShape);
  }
  // A start that keeps a choice.
  void keep(const TuningOption& option, const std::filesystem::path& checkpoint = {}) {
    TuningCache cache(key_, option, &host_);
    if (!checkpoint.empty()) cache.add_checkpoint(checkpoint);
    cache.keep(kShape, kChoice);
  }

  struct Host : mortise_host {
    mutable std::vector<std::string> lines;
  };
  const std::optional<std::string> cache_before_ = test::variable("XDG_CACHE_HOME"),
                                   home_before_ = test::variable("HOME");
  const test::TempFolder home_, checkpoint_, folder_;
  const TuningKey key_ = {"NVIDIA H200", 13000, 130100};
  Host host_{};
};

TEST_F(TuningCacheTest, AChoiceIsFoundAtTheNextStart) {
  EXPECT_EQ(found({}), std::nullopt);
  keep({});
  EXPECT_EQ(found({}), kChoice);
  EXPECT_TRUE(std::filesystem::exists(home_.path() / ".cache/mortise" / tuning_file_name(key_)));
  EXPECT_TRUE(host_.lines.empty());
}

TEST_F(TuningCacheTest, AnotherHomeFindsItBesideTheCheckpoint) {
  keep({}, checkpoint_.path());
  const test::TempFolder another;
  test::set_variable("HOME", another.path().string());
  EXPECT_EQ(found({}), std::nullopt);
  EXPECT_EQ(found({}, checkpoint_.path()), kChoice);
}

TEST_F(TuningCacheTest, AFolderThatTheOptionNamesIsTheOnlyPlace) {
  const TuningOption option = {true, (folder_.path() / "made").string()};
  keep(option, checkpoint_.path());
  EXPECT_EQ(found(option), kChoice);
  EXPECT_EQ(found({}, checkpoint_.path()), std::nullopt);
}

TEST_F(TuningCacheTest, WithoutAFolderItIsToldOnceWhatKeepsThem) {
  test::set_variable("HOME", std::nullopt);
  {
    TuningCache cache(key_, {}, &host_);
    EXPECT_TRUE(host_.lines.empty());  // there is nothing to keep yet
    cache.keep(kShape, kChoice);
    cache.keep({8, 8, false, false, 1}, kChoice);
  }
  ASSERT_EQ(host_.lines.size(), 1u);
  EXPECT_NE(host_.lines[0].find("neither XDG_CACHE_HOME nor HOME names a folder"), std::string::npos);
  EXPECT_NE(host_.lines[0].find("tuning_cache = \"FOLDER\""), std::string::npos);
}

TEST_F(TuningCacheTest, WithoutAHomeTheCheckpointsFolderIsEnough) {
  test::set_variable("HOME", std::nullopt);
  keep({}, checkpoint_.path());
  EXPECT_EQ(found({}, checkpoint_.path()), kChoice);
  EXPECT_TRUE(host_.lines.empty());
}

TEST_F(TuningCacheTest, AFolderThatCannotBeMadeIsToldOnce) {
  const std::string file = folder_.write("file", "").string();
  {
    TuningCache cache(key_, {true, file}, &host_);
    cache.keep(kShape, kChoice);
    cache.keep({8, 8, false, false, 1}, kChoice);
  }
  ASSERT_EQ(host_.lines.size(), 1u);
  EXPECT_NE(host_.lines[0].find("the chosen algorithms are not kept: "), std::string::npos) << host_.lines[0];
}

TEST_F(TuningCacheTest, FalseReadsAndWritesNoFile) {
  keep({});
  EXPECT_EQ(found({false, {}}), std::nullopt);
  keep({false, {}}, checkpoint_.path());
  EXPECT_TRUE(std::filesystem::is_empty(checkpoint_.path()));
}

TEST_F(TuningCacheTest, ADamagedFileIsToldAndMadeAnew) {
  keep({true, folder_.path().string()});
  folder_.write(tuning_file_name(key_), "{");
  EXPECT_EQ(found({true, folder_.path().string()}), std::nullopt);
  ASSERT_EQ(host_.lines.size(), 1u);
  EXPECT_NE(host_.lines[0].find("is not used; a new one will be written"), std::string::npos);
  keep({true, folder_.path().string()});
  EXPECT_EQ(found({true, folder_.path().string()}), kChoice);
}

// A checkpoint may come from anywhere, with links in its folder.
TEST_F(TuningCacheTest, NoLinkInACheckpointIsWrittenThrough) {
  const std::filesystem::path victim = home_.path() / "victim";
  std::ofstream(victim) << "precious";
  const std::filesystem::path file = checkpoint_.path() / ("mortise-" + tuning_file_name(key_));
  for (const std::string& name : {file.string(), file.string() + "." + std::to_string(::getpid())}) {
    std::filesystem::create_symlink(victim, name);
  }
  keep({}, checkpoint_.path());
  std::string text;
  std::getline(std::ifstream(victim), text);
  EXPECT_EQ(text, "precious");
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(file)));
}

}  // namespace
}  // namespace mortise::cuda::tuning_cache_test
