#include "execution/difference.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace mortise {
namespace {

HostRows rows_of(const std::vector<float>& values, std::int64_t columns, std::int64_t stride) {
  return {.data = reinterpret_cast<const std::byte*>(values.data()),
          .row_bytes = columns * 4,
          .stride_bytes = stride * 4,
          .dtype = MORTISE_F32};
}

TEST(FirstDifferenceOfRows, IsOfBitsAndNotOfNumbers) {
  const float nan = std::bit_cast<float>(0x7fc00000u), other_nan = std::bit_cast<float>(0x7fc00001u);
  const std::vector<float> serving = {1, nan, 0.0f}, equal = serving, zero = {1, nan, -0.0f},
                           nans = {1, other_nan, 0.0f};
  EXPECT_FALSE(first_difference(rows_of(serving, 3, 3), rows_of(equal, 3, 3), 1));
  const auto at_zero = first_difference(rows_of(serving, 3, 3), rows_of(zero, 3, 3), 1);
  ASSERT_TRUE(at_zero);
  EXPECT_EQ(at_zero->element, 2);
  const auto at_nan = first_difference(rows_of(serving, 3, 3), rows_of(nans, 3, 3), 1);
  ASSERT_TRUE(at_nan);
  EXPECT_EQ(at_nan->element, 1);
}

TEST(FirstDifferenceOfRows, PassesOverWhatLiesBetweenRowsAndBehindThem) {
  const std::vector<float> serving = {1, 2, /**/ 9, 3, 4, /**/ 9, 5, 6, /**/ 9};
  std::vector<float> candidate = {1, 2, /**/ 8, 3, 4, /**/ 8, 5, 7, /**/ 8};
  EXPECT_FALSE(first_difference(rows_of(serving, 2, 3), rows_of(candidate, 2, 3), 2));
  const auto at = first_difference(rows_of(serving, 2, 3), rows_of(candidate, 2, 3), 3);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->row, 2);
  EXPECT_EQ(at->element, 1);
  EXPECT_FALSE(first_difference(rows_of(serving, 2, 3), rows_of(candidate, 2, 3), 0));
}

TEST(FirstDifferenceOfRows, StridesMayDifferAndBf16HasTwoBytes) {
  const std::vector<std::uint16_t> serving = {0x3f80, 0x3e80, 0x3f80, 0x3e80};
  const std::vector<std::uint16_t> candidate = {0x3f80, 0x3e80, 0xffff, 0x3f80, 0x3f00, 0xffff};
  const HostRows a = {reinterpret_cast<const std::byte*>(serving.data()), 4, 4, MORTISE_BF16};
  const HostRows b = {reinterpret_cast<const std::byte*>(candidate.data()), 4, 6, MORTISE_BF16};
  const auto at = first_difference(a, b, 2);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->row, 1);
  EXPECT_EQ(at->element, 1);
  Difference difference = difference_at(a, b, *at, "attention output");
  EXPECT_EQ(difference.serving.value, 0.25f);
  EXPECT_EQ(difference.candidate.value, 0.5f);
  difference.layer = 2;
  difference.position = 17;
  EXPECT_EQ(describe(difference),
            "layer 2, position 17: element 1 of the attention output is 0.25 (0x3e80) and would be 0.5 (0x3f00)");
}

TEST(DescribeDifference, LeavesOutWhatIsNotKnown) {
  Difference difference = {.what = "logits", .element = 7, .serving = {1, 0x3f800000}, .candidate = {0, 0x80000000}};
  EXPECT_EQ(describe(difference), "element 7 of the logits is 1 (0x3f800000) and would be 0 (0x80000000)");
  difference.position = 0;
  EXPECT_EQ(describe(difference), "position 0: element 7 of the logits is 1 (0x3f800000) and would be 0 (0x80000000)");
  EXPECT_EQ(describe({.what = "run", .layer = 0, .failure = "out of memory"}), "layer 0: run failed: out of memory");
  EXPECT_EQ(describe({.failure = "out of memory"}), "out of memory");
}

TEST(PlaceRow, FindsTheRunAndPositionOfARow) {
  const std::vector<std::int32_t> ends = {0, 2, 3, 6}, positions = {4, 5, 9, 0, 1, 2};
  const std::vector<std::uint64_t> ids = {70, 80, 90};
  mortise_batch batch = {};
  batch.num_seqs = 3;
  batch.cu_seqlens_q = ends.data();
  batch.positions = positions.data();
  batch.seq_ids = ids.data();
  const std::vector<std::pair<std::uint64_t, std::int32_t>> expected = {{70, 4}, {70, 5}, {80, 9},
                                                                        {90, 0}, {90, 1}, {90, 2}};
  for (std::size_t row = 0; row < expected.size(); ++row) {
    Difference difference;
    place_row(batch, static_cast<std::int64_t>(row), difference);
    EXPECT_EQ(difference.seq_id, expected[row].first) << "row " << row;
    EXPECT_EQ(difference.position, expected[row].second) << "row " << row;
  }
}

}  // namespace
}  // namespace mortise
