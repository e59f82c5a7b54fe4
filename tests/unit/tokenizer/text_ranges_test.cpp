#include "tokenizer/text_ranges.hpp"

#include <gtest/gtest.h>

namespace mortise::tokenizer {
namespace {

// The ranges as a picture of the first `size` bytes: "..xx." has [2, 4).
std::string drawn(const TextRanges& ranges, std::size_t size) {
  std::string picture;
  for (std::size_t i = 0; i < size; ++i) picture += ranges.cover(i, i + 1) ? 'x' : '.';
  return picture;
}

TEST(TextRanges, NoneCoversNothingAndEverywhereCoversAll) {
  EXPECT_FALSE(TextRanges().cover(0, 1));
  EXPECT_TRUE(TextRanges::everywhere().cover(0, 1));
  EXPECT_TRUE(TextRanges::everywhere().cover(std::size_t{1} << 40, (std::size_t{1} << 40) + 5));
}

TEST(TextRanges, OneRangeMustHaveAllOfAPart) {
  TextRanges ranges;
  ranges.add(2, 4);
  ranges.add(6, 9);
  EXPECT_EQ(drawn(ranges, 11), "..xx..xxx..");
  EXPECT_TRUE(ranges.cover(6, 9));
  EXPECT_FALSE(ranges.cover(6, 10));
  EXPECT_FALSE(ranges.cover(5, 7));
  EXPECT_FALSE(ranges.cover(3, 7));  // true: a token would reach through a caller's text
}

TEST(TextRanges, RangesThatTouchAreOneAndEmptyOnesAreNone) {
  TextRanges ranges;
  ranges.add(0, 0);
  ranges.add(2, 4);
  ranges.add(4, 4);
  ranges.add(4, 6);
  EXPECT_EQ(drawn(ranges, 8), "..xxxx..");
  EXPECT_TRUE(ranges.cover(3, 5));
}

TEST(TextRanges, APartOfTheTextHasItsOwnCount) {
  TextRanges ranges;
  ranges.add(2, 4);
  ranges.add(6, 9);
  EXPECT_EQ(drawn(ranges.within(3, 8), 6), "x..xx.");
  EXPECT_EQ(drawn(ranges.within(4, 6), 4), "....");
  EXPECT_EQ(drawn(ranges.within(0, 100), 10), drawn(ranges, 10));
  EXPECT_EQ(drawn(ranges.within(7, 7), 3), "...");
  EXPECT_EQ(drawn(TextRanges::everywhere().within(5, 8), 5), "xxx..");
}

}  // namespace
}  // namespace mortise::tokenizer
