#include "loader/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mortise {
namespace {

const std::vector<std::string> kNames = {"block_size", "max_num_seqs", "paged", "cpu"};

TEST(Nearest, FindsALetterDroppedChangedAddedOrSwapped) {
  EXPECT_EQ(nearest_name("blok_size", kNames), "block_size");
  EXPECT_EQ(nearest_name("pagad", kNames), "paged");
  EXPECT_EQ(nearest_name("pagged", kNames), "paged");
  EXPECT_EQ(nearest_name("cup", kNames), "cpu");
}

TEST(Nearest, SuggestsNothingForAnotherWord) {
  EXPECT_EQ(nearest_name("threads", kNames), std::nullopt);
  EXPECT_EQ(did_you_mean("threads", kNames), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'a'), kNames), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
}

}  // namespace
}  // namespace mortise
