#include "tokenizer/model/merge_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace mortise::tokenizer {
namespace {

TEST(MergeTable, ATableOfNothingFindsNothing) {
  const MergeTable table(0);
  EXPECT_EQ(table.find(0, 0), nullptr);
  EXPECT_EQ(table.find(INT32_MAX, INT32_MAX), nullptr);
}

TEST(MergeTable, AnOrderOfTwoTokensIsAPairOfItsOwn) {
  MergeTable table(3);
  table.add(1, 2, {.rank = 0, .id = 10});
  table.add(2, 1, {.rank = 1, .id = 11});
  table.add(INT32_MAX, INT32_MAX, {.rank = 2, .id = 12});
  EXPECT_EQ(table.find(1, 2)->id, 10);
  EXPECT_EQ(table.find(2, 1)->id, 11);
  EXPECT_EQ(table.find(INT32_MAX, INT32_MAX)->rank, 2u);
  EXPECT_EQ(table.find(1, 1), nullptr);
}

TEST(MergeTable, APairThatIsThereGetsTheNewMerge) {
  MergeTable table(2);
  table.add(1, 2, {.rank = 0, .id = 10});
  table.add(1, 2, {.rank = 7, .id = 17});
  EXPECT_EQ(table.find(1, 2)->rank, 7u);
  EXPECT_EQ(table.find(1, 2)->id, 17);
}

TEST(MergeTable, FullTablesOfAnySizeKnowWhatAMapKnows) {
  for (std::size_t size = 1; size < 300; size += 13) {
    std::mt19937 rng(static_cast<unsigned>(size));
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> expected;
    MergeTable table(size);
    for (std::size_t i = 0; i < size; ++i) {
      const auto left = static_cast<std::int32_t>(rng() % 20), right = static_cast<std::int32_t>(rng() % 20);
      table.add(left, right, {.rank = static_cast<std::uint32_t>(i), .id = static_cast<std::int32_t>(i)});
      expected[{left, right}] = static_cast<std::int32_t>(i);
    }
    for (std::int32_t left = 0; left < 20; ++left) {
      for (std::int32_t right = 0; right < 20; ++right) {
        const Merge* const merge = table.find(left, right);
        const auto known = expected.find({left, right});
        ASSERT_EQ(merge == nullptr ? -1 : merge->id, known == expected.end() ? -1 : known->second)
            << "size " << size << ", pair " << left << ", " << right;
      }
    }
  }
}

}  // namespace
}  // namespace mortise::tokenizer
