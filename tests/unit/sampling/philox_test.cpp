// Known answers of Philox4x32-10, from kat_vectors of the library Random123 by its authors.
#include "sampling/philox.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(HostPhilox, GivesTheVectorsOfRandom123) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~std::uint64_t{0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(HostPhilox, IsAConstantExpression) {
  static_assert(philox(1, {0, 0, 0, 0}) != philox(2, {0, 0, 0, 0}));
  static_assert(philox(1, {0, 0, 0, 0}) != philox(std::uint64_t{1} << 32, {0, 0, 0, 0}));  // both halves of the key
}

}  // namespace
}  // namespace mortise
