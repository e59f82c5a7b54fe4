#include "bisect/row_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "traced_batch.hpp"

namespace mortise::test {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<std::int32_t, std::int32_t>> keys(const RowTrace& trace,
                                                        const std::vector<std::vector<std::int32_t>>& sequences) {
  std::vector<std::pair<std::int32_t, std::int32_t>> list;
  for (const auto& [key, row] : trace.valid_rows(sequences)) list.push_back(key);
  return list;
}

TEST(RowTrace, SeesTheRowsOfItsSequencesAlone) {
  RowTrace trace(/*first_sequence=*/3, /*num_choices=*/2);
  begin_step(trace, 7, {{2, 0, {1, 1}}, {4, 5, {8}}, {5, 0, {1}}, {3, 2, {6, 7}}});
  EXPECT_THAT(trace.batch_rows(), ElementsAre(2, 4, 5));
  ASSERT_EQ(trace.rows().size(), 3u);
  EXPECT_EQ(trace.rows()[0].choice, 1);
  EXPECT_EQ(trace.rows()[0].position, 5);
  EXPECT_EQ(trace.rows()[0].token, 8);
  EXPECT_EQ(trace.rows()[0].step, 7u);
  EXPECT_EQ(trace.rows()[2].position, 3);
  begin_step(trace, 8, {{2, 2, {1}}});
  EXPECT_FALSE(trace.sees_step());
}

TEST(RowTrace, ARowsHashIsOfItsOwnBytes) {
  RowTrace trace(1, 1);
  const auto rows = begin_step(trace, 0, {{9, 0, {5}}, {1, 0, {5, 6, 7}}});
  record(trace, op("linear", 0), rows, {10, 20, 10, 30});
  const auto hash_of = [&](std::size_t row) { return trace.rows()[row].hashes.at(0).second; };
  EXPECT_NE(hash_of(0), hash_of(1));
  const auto later = begin_step(trace, 1, {{1, 3, {8}}});
  record(trace, op("linear", 0), later, {20});
  EXPECT_EQ(hash_of(3), hash_of(0));
  EXPECT_EQ(trace.ops().size(), 1u);
}

TEST(RowTrace, StridedRowsAndHeadsAreReadWithoutWhatLiesBetween) {
  RowTrace a(1, 1), b(1, 1);
  const auto rows = begin_step(a, 0, {{1, 0, {5, 6}}});
  begin_step(b, 0, {{1, 0, {5, 6}}});
  // Two rows of two heads of one element, with a gap after each head and each row; and densely.
  const std::vector<std::int32_t> spread = {1, -1, 2, -1, -1, 3, -2, 4}, dense = {1, 2, 3, 4};
  const auto bytes_of = [](const std::vector<std::int32_t>& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  };
  a.record(op("x", 0), {bytes_of(spread), 5 * 4, 2, 2 * 4, 4}, rows);
  b.record(op("x", 0), {bytes_of(dense), 2 * 4, 2, 4, 4}, rows);
  EXPECT_EQ(a.rows()[0].hashes, b.rows()[0].hashes);
  EXPECT_EQ(a.rows()[1].hashes, b.rows()[1].hashes);
  EXPECT_NE(a.rows()[0].hashes, a.rows()[1].hashes);
}

TEST(RowTrace, RowsOfDraftsThatWereRejectedAreNoRowsOfTheSequence) {
  RowTrace trace(1, 1);
  begin_step(trace, 0, {{1, 0, {5, 6}}});
  begin_step(trace, 1, {{1, 2, {7, 8, 9}}});  // 8 is rejected: 9 follows it, and comes again
  begin_step(trace, 2, {{1, 3, {4, 9}}});
  const std::vector<std::vector<std::int32_t>> sequences = {{5, 6, 7, 4, 9}};
  const auto valid = trace.valid_rows(sequences);
  EXPECT_THAT(valid, ElementsAre(Pair(Pair(0, 0), 0u), Pair(Pair(0, 1), 1u), Pair(Pair(0, 2), 2u), Pair(Pair(0, 3), 5u),
                                 Pair(Pair(0, 4), 6u)));
}

TEST(RowTrace, DraftsAsRunsOfTheirOwnStandBehindEachOther) {
  RowTrace trace(1, 1);
  begin_step(trace, 1, {{1, 2, {7}}, {1, 3, {8}}, {1, 4, {9}}});
  EXPECT_THAT(keys(trace, {{5, 6, 7, 4, 9}}), ElementsAre(Pair(0, 2)));
  EXPECT_THAT(keys(trace, {{5, 6, 7, 8, 9}}), ElementsAre(Pair(0, 2), Pair(0, 3), Pair(0, 4)));
}

TEST(RowTrace, OfARowThatIsComputedAgainTheFirstCounts) {
  RowTrace trace(1, 1);
  begin_step(trace, 1, {{1, 0, {7}}});
  begin_step(trace, 5, {{1, 0, {7, 8}}});  // it was preempted
  const auto valid = trace.valid_rows(std::vector<std::vector<std::int32_t>>{{7, 8}});
  EXPECT_EQ(valid.at({0, 0}), 0u);
  EXPECT_EQ(valid.at({0, 1}), 2u);
}

TEST(RowTrace, KeepsTheOutputThatIsWanted) {
  RowTrace trace(1, 1, WantedOutput{0, 1, op("linear", 2).key});
  const auto rows = begin_step(trace, 0, {{1, 0, {5, 6}}});
  record(trace, op("linear", 1), rows, {10, 20});
  record(trace, op("linear", 2), rows, {30, 40});
  EXPECT_TRUE(trace.rows()[0].captured.empty());
  EXPECT_THAT(trace.rows()[1].captured, ElementsAre(std::byte{40}, std::byte{0}, std::byte{0}, std::byte{0}));
}

}  // namespace
}  // namespace mortise::test
