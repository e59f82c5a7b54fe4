#include "counted.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace mortise {
namespace {

TEST(Counted, OneThingAloneIsSingular) {
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(2, "draft token"), "2 draft tokens");
  EXPECT_EQ(counted(-1, "token"), "-1 tokens");
  EXPECT_EQ(counted(std::uint64_t{18446744073709551615u}, "byte"), "18446744073709551615 bytes");
}

}  // namespace
}  // namespace mortise
