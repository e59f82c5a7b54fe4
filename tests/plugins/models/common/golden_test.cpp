// The plugin under test on naive parts in double: what it computes against transformers, on every golden model of its.
// Covers: plugins/models/common/position_decoder plugins/models/llama/{forward,weights}
#include <gmock/gmock.h>

#include <cmath>

#include "plugins/models/common/model_instance.hpp"

namespace mortise::test {
namespace {

StackOptions in_f32() {
  StackOptions options;
  options.dtype = "f32";
  return options;
}

class ModelGolden : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, ModelGolden, ::testing::ValuesIn(golden_model_names(model_under_test().name)),
                         [](const auto& info) { return info.param; });

TEST_P(ModelGolden, LogitsOnNaivePartsAreThoseOfTransformers) {
  const GoldenModel golden = read_golden_model(GetParam());
  Stack stack(naive_parts(), golden.folder, in_f32());
  const std::vector<Row> rows = stack.step({{1, golden.prompt}}).front();
  double worst = 0;
  for (std::size_t r = 0; r < golden.positions.size(); ++r) {
    const Row& row = rows[static_cast<std::size_t>(golden.positions[r])];
    double largest = 0, difference = 0;
    for (std::size_t v = 0; v < row.size(); ++v) {
      const double expected = golden.logits[r * row.size() + v];
      largest = std::max(largest, std::fabs(expected));
      difference = std::max(difference, std::fabs(row[v] - expected));
    }
    worst = std::max(worst, difference / largest);
  }
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LT(worst, 5e-6);  // the rounding of transformers' f32 sums; a missing part of the model gives 0.09 or more
}

TEST_P(ModelGolden, ChunksGiveTheSameBitsAsTheWholePrompt) {
  const GoldenModel golden = read_golden_model(GetParam());
  const std::vector<int32_t> prompt(golden.prompt.begin(), golden.prompt.begin() + 40);
  Stack whole(naive_parts(), golden.folder, in_f32());
  Stack chunked(naive_parts(), golden.folder, in_f32());
  const std::vector<Row> expected = whole.step({{1, prompt}}).front();
  std::vector<Row> rows;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 18}, {18, 39}, {39, 40}}) {
    const auto found = chunked.step({{7, {5, 4}}, {1, {prompt.begin() + begin, prompt.begin() + end}}});
    rows.insert(rows.end(), found[1].begin(), found[1].end());
  }
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace mortise::test
