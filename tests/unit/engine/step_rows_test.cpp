#include "engine/step_rows.hpp"

#include <gmock/gmock.h>

#include <deque>

#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

using Ids = std::vector<std::int32_t>;

// A sequence of six tokens of which `num_computed` have KV, with drafts after them.
ScheduledSequence scheduled(std::int32_t num_computed, Ids drafts, std::uint64_t id = 7) {
  auto state = std::make_shared<RequestState>();
  state->request = greedy({1, 2, 3, 4, 5, 6}, 10);
  static std::deque<Sequence> sequences;  // a step borrows them
  ScheduledSequence item{&sequences.emplace_back(id, state, 0, tokenizer()), 6 - num_computed, 0};
  item.sequence->num_computed = num_computed;
  item.sequence->drafts = std::move(drafts);
  item.sequence->blocks = {4, 9, 2};
  return item;
}

struct RunText {
  std::uint64_t id;
  std::int32_t first;
  Ids tokens;
  bool operator==(const RunText&) const = default;
};
std::vector<RunText> runs_of(const StepRows& rows) {
  std::vector<RunText> result;
  for (const RowRun& run : rows.runs()) {
    Ids tokens(run.known.begin(), run.known.end());
    tokens.insert(tokens.end(), run.drafts.begin(), run.drafts.end());
    EXPECT_EQ(Ids(run.blocks.begin(), run.blocks.end()), (Ids{4, 9, 2}));
    result.push_back({run.seq_id, run.first, tokens});
  }
  return result;
}

TEST(StepRows, DraftsAreRowsOfTheirSequencesRun) {
  StepRows rows(/*batch_expansion=*/false);
  const std::vector items = {scheduled(5, {20, 21}, 7), scheduled(3, {}, 8)};
  rows.assign(items);
  EXPECT_EQ(runs_of(rows), (std::vector<RunText>{{7, 5, {6, 20, 21}}, {8, 3, {4, 5, 6}}}));
}

TEST(StepRows, TheCompositionCountsRowsByKind) {
  // Of six prompt tokens: one decode with two drafts, three rows of a chunk, all six.
  std::vector items = {scheduled(6, {20, 21}, 7), scheduled(3, {}, 8), scheduled(0, {}, 9)};
  items[0].sequence->tokens.push_back(19);
  items[0].num_new_tokens = 1;
  const BatchComposition batch = composition_of(items);
  EXPECT_EQ(batch.num_sequences, 3);
  EXPECT_EQ(batch.prompt_rows, 9);
  EXPECT_EQ(batch.decode_rows, 1);
  EXPECT_EQ(batch.draft_rows, 2);
  EXPECT_EQ(batch.num_rows(), 12);
}

TEST(StepRows, BatchExpansionMakesEachDraftARunAndLeavesPrefillAlone) {
  StepRows rows(/*batch_expansion=*/true);
  const std::vector items = {scheduled(5, {20, 21}, 7), scheduled(3, {22}, 8), scheduled(0, {}, 9)};
  rows.assign(items);
  EXPECT_EQ(runs_of(rows),
            (std::vector<RunText>{
                {7, 5, {6}}, {7, 6, {20}}, {7, 7, {21}}, {8, 3, {4, 5, 6}}, {8, 6, {22}}, {9, 0, {1, 2, 3, 4, 5, 6}}}));
}

TEST(StepRows, TheRowsThatWantLogitsAreTheSameEitherWay) {
  for (const bool expansion : {false, true}) {
    StepRows rows(expansion);
    const std::vector items = {scheduled(5, {20, 21}, 7), scheduled(3, {22}, 8)};
    rows.assign(items);
    std::vector<std::int32_t> numbers;
    for (const LogitRow& row : rows.logit_rows()) numbers.push_back(row.row);
    EXPECT_THAT(numbers, ::testing::ElementsAre(0, 1, 2, 5, 6));
    EXPECT_EQ(rows.logit_rows()[2].position, 7);
    EXPECT_EQ(rows.logit_rows()[2].seq, 0);
    EXPECT_EQ(rows.logit_rows()[4].position, 6);
    EXPECT_EQ(rows.logit_rows()[4].seq, 1);
  }
}

}  // namespace
}  // namespace mortise::test
