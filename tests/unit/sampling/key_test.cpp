#include "sampling/key.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace mortise {
namespace {

// A seed means the same tokens in every version, so these numbers must stay.
TEST(NoiseKey, MixesAsSplitMix64) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu);  // the first outputs of SplitMix64 with the seed 0
  EXPECT_EQ(mix64(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(mix64(2 * 0x9e3779b97f4a7c15u), 0x06c45d188009454fu);
}

TEST(NoiseKey, SeedsAndChoicesHaveKeysOfTheirOwn) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (std::uint32_t choice = 0; choice < 200; ++choice) keys.insert(noise_key(seed, choice));
  }
  EXPECT_EQ(keys.size(), 200u * 200u);
  EXPECT_NE(noise_key(1, 0), noise_key(0, 1));
}

TEST(NoiseKey, EveryBitOfASeedReachesAboutHalfOfTheKeysBits) {
  for (int bit = 0; bit < 64; ++bit) {
    const int changed = std::popcount(noise_key(42, 0) ^ noise_key(42 ^ std::uint64_t{1} << bit, 0));
    EXPECT_GE(changed, 12) << "bit " << bit;  // 32 are expected, with a deviation of 4
    EXPECT_LE(changed, 52) << "bit " << bit;
  }
}

}  // namespace
}  // namespace mortise
