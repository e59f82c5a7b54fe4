#include "bisect/first_difference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "mortise/tensor.h"
#include "traced_batch.hpp"

namespace mortise::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Sequences = std::vector<std::vector<std::int32_t>>;

// A forward of two layers over the rows of the step; each row's values are its token, but that of `wrong` at
// `position`.
void run_forward(RowTrace& trace, std::uint64_t step, const HandRun& run, const std::string& wrong = "",
                 std::int32_t position = -1, bool fused = false) {
  const std::vector<std::int32_t> rows = begin_step(trace, step, {run});
  const auto write = [&](const TracedOp& operation) {
    std::vector<std::int32_t> values = run.tokens;
    const std::int32_t index = position - run.first;
    if (operation.key == wrong && index >= 0 && index < static_cast<std::int32_t>(values.size())) {
      ++values[static_cast<std::size_t>(index)];
    }
    record(trace, operation, rows, values);
  };
  const auto qkv = [&](std::int32_t stretch) {
    write(op("norm", stretch));
    write(op("qkv", stretch));
  };
  write(op("embed", 0));
  qkv(0);
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    write(attention("append", 2 * layer + 1, layer));
    write(attention("run", 2 * layer + 2, layer));
    write(op("o", 2 * layer + 2));
    if (layer == 0 && fused) write(op("one operation for all", 2));
    if (layer == 0 && !fused) write(op("mlp", 2));
    if (layer == 0) qkv(2);
    if (layer == 1) write(op("mlp", 4));
  }
  TracedOp head = op("head", -1);
  head.is_anchor = true;
  write(head);
}

TEST(FirstDifference, EqualRunsWithOtherStepsHaveNone) {
  RowTrace a(1, 1), b(1, 1);
  run_forward(a, 0, {1, 0, {5, 6, 7}});
  run_forward(b, 0, {1, 0, {5}});
  run_forward(b, 1, {1, 1, {6, 7}});
  const Sequences sequences = {{5, 6, 7, 8}};
  const TraceComparison result = compare_traces({a, sequences}, {b, sequences});
  EXPECT_FALSE(result.first);
  EXPECT_EQ(result.num_rows, 3u);
  EXPECT_EQ(result.num_compared, 3u * 14);
  EXPECT_EQ(result.num_equal, result.num_compared);
  EXPECT_THAT(result.not_aligned, IsEmpty());
}

TEST(FirstDifference, IsTheFirstInTheOrderOfTheOldRun) {
  RowTrace a(1, 1), b(1, 1);
  run_forward(a, 3, {1, 0, {5, 6, 7}});
  run_forward(a, 4, {1, 3, {8}});
  run_forward(b, 9, {1, 0, {5, 6}}, "2: mlp", 1);
  run_forward(b, 10, {1, 2, {7, 8}}, "0: norm", 3);
  const Sequences sequences = {{5, 6, 7, 8}};
  const TraceComparison result = compare_traces({a, sequences}, {b, sequences});
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->op.name, "mlp");
  EXPECT_EQ(result.first->position, 1);
  EXPECT_EQ(result.first->old_step, 3u);
  EXPECT_EQ(result.first->new_step, 9u);
  EXPECT_EQ(result.num_equal, 3u * 6 + 1);
  EXPECT_EQ(
      result.first->where,
      "layer 0, operation `mlp` (out [1, 1]), output 2 of 4 between the attention of layer 0 and that of layer 1");
}

TEST(FirstDifference, TheLayerOfAnOperationIsThatOfTheAttentionThatItBelongsTo) {
  const auto where = [](const std::string& wrong) {
    RowTrace a(1, 1), b(1, 1);
    run_forward(a, 0, {1, 0, {5}});
    run_forward(b, 0, {1, 0, {5}}, wrong, 0);
    const Sequences sequences = {{5, 6}};
    return compare_traces({a, sequences}, {b, sequences}).first.value().where;
  };
  EXPECT_THAT(where("0: embed"), HasSubstr("before the layers, operation `embed`"));
  EXPECT_THAT(where("0: qkv"), HasSubstr("layer 0, operation `qkv`"));
  EXPECT_THAT(where("append of layer 0"), HasSubstr("layer 0, operation `append` (out [1, 1])"));
  EXPECT_THAT(where("2: o"), HasSubstr("layer 0, operation `o`"));
  EXPECT_THAT(where("2: norm"), HasSubstr("layer 1, operation `norm`"));
  EXPECT_THAT(where("run of layer 1"), HasSubstr("layer 1, operation `run`"));
  EXPECT_THAT(where("4: mlp"),
              HasSubstr("layer 1, operation `mlp` (out [1, 1]), output 2 of 2 after the attention of"));
  EXPECT_THAT(where("-1: head"), HasSubstr("after the layers, operation `head`"));
}

TEST(FirstDifference, WhereModelsCallOtherOperationsTheStretchIsNamed) {
  RowTrace a(1, 1), b(1, 1);
  run_forward(a, 0, {1, 0, {5, 6}});
  run_forward(b, 0, {1, 0, {5, 6}}, "2: o", 1, /*fused=*/true);
  const Sequences sequences = {{5, 6, 7}};
  TraceComparison result = compare_traces({a, sequences}, {b, sequences});
  EXPECT_FALSE(result.first) << "nothing of that stretch is compared";
  EXPECT_THAT(result.not_aligned, ElementsAre("between the attention of layer 0 and that of layer 1"));

  RowTrace c(1, 1);
  run_forward(c, 0, {1, 0, {5, 6}}, "append of layer 1", 1, /*fused=*/true);
  result = compare_traces({a, sequences}, {c, sequences});
  EXPECT_THAT(
      result.first.value().where,
      HasSubstr("operation `append` (out [1, 1]); the difference is in it or between the attention of layer 0 and "
                "that of layer 1, where the two models call different operations"));
}

TEST(FirstDifference, RowsBehindATokenThatDiffersAreNotCompared) {
  RowTrace a(1, 1), b(1, 1);
  run_forward(a, 0, {1, 0, {5, 6, 7}});
  run_forward(b, 0, {1, 0, {5, 9, 7}});
  const Sequences old_tokens = {{5, 6, 7}}, new_tokens = {{5, 9, 7}};
  const TraceComparison result = compare_traces({a, old_tokens}, {b, new_tokens});
  EXPECT_FALSE(result.first);
  EXPECT_EQ(result.num_rows, 1u);
}

TEST(FirstDifference, APromptMayBeComputedByAnyChoice) {
  RowTrace a(1, 2), b(1, 2);
  run_forward(a, 0, {1, 0, {5, 6}});
  run_forward(b, 0, {2, 0, {5, 6}}, "2: mlp", 1);
  const Sequences sequences = {{5, 6, 7}, {5, 6, 8}};
  const TraceComparison result = compare_traces({a, sequences}, {b, sequences});
  EXPECT_EQ(result.num_rows, 2u);
  EXPECT_EQ(result.first.value().new_choice, 1);
  EXPECT_EQ(result.num_compared, 2u * 13) << "what is drawn from the row is each choice's own";
}

template <typename T>
std::vector<std::byte> bytes(const std::vector<T>& values) {
  std::vector<std::byte> result(values.size() * sizeof(T));
  std::memcpy(result.data(), values.data(), result.size());
  return result;
}

TEST(FirstDifference, ElementsAreNamedWithTheirBits) {
  const std::vector<std::int64_t> columns = {3}, heads = {2, 2};
  EXPECT_EQ(describe_elements(MORTISE_BF16, columns, bytes<std::uint16_t>({0x3f80, 0x3df8, 0}),
                              bytes<std::uint16_t>({0x3f80, 0x3df9, 0})),
            "element 1: old 0.12109375 (0x3df8), new 0.12158203 (0x3df9); 1 of 3 elements differs");
  EXPECT_EQ(describe_elements(MORTISE_F32, heads, bytes<float>({1, 2, 3, 4}), bytes<float>({1, 2, -3, -4})),
            "element 2 (head 1, 0): old 3 (0x40400000), new -3 (0xc0400000); 2 of 4 elements differ");
  EXPECT_EQ(describe_elements(MORTISE_I32, columns, bytes<std::int32_t>({-7}), bytes<std::int32_t>({5})),
            "element 0: old -7 (0xfffffff9), new 5 (0x00000005); 1 of 1 element differs");
  EXPECT_EQ(describe_elements(MORTISE_I32, columns, bytes<std::int32_t>({7}), bytes<std::int32_t>({7})), "");
}

}  // namespace
}  // namespace mortise::test
