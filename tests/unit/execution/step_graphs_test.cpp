// Buckets that batches are padded to, and what padding looks like to the parts.
// Covers: runtime/execution/{batch_bucket,batch_builder}
#include "execution/step_graphs.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "engine/step_rows.hpp"
#include "engine_fixture.hpp"

namespace mortise::test {
namespace {

class StepGraphsTest : public ::testing::Test {
 protected:
  StepGraphsTest() {
    limits.max_num_seqs = 100;
    limits.max_batched_tokens = 1000;
    limits.max_model_len = 4096;
    limits.block_size = 4;
    limits.num_blocks = 5000;
    limits.padding_block = 5000;
    world = std::make_unique<FakeWorld>(limits);
    parts = world->parts();
    parts.graphs = &table;
  }

  // Sequences that decode with this many drafts each, on 3 blocks.
  std::vector<ScheduledSequence> decoding(std::size_t count, std::size_t drafts = 0, std::int32_t rows = 1) {
    std::vector<ScheduledSequence> scheduled;
    for (std::size_t i = 0; i < count; ++i) {
      auto owner = std::make_shared<RequestState>();
      owner->request = greedy({1, 2, 3, 4, 5}, 20);
      Sequence& sequence = sequences.emplace_back(i + 1, owner, 0, tokenizer());
      sequence.num_computed = 5 - rows;
      sequence.blocks = {7, 8, 9};
      sequence.drafts.assign(drafts, 3);
      scheduled.push_back({&sequence, rows, static_cast<std::int32_t>(drafts)});
    }
    return scheduled;
  }
  std::optional<BatchBucket> bucket(const std::vector<ScheduledSequence>& scheduled) const {
    StepRows rows(false);
    rows.assign(scheduled);
    return StepGraphs(parts, limits).bucket_of(rows.runs());
  }

  EngineLimits limits;
  std::deque<Sequence> sequences;  // a step borrows them
  std::unique_ptr<FakeWorld> world;
  mortise_graph_table table{};
  Parts parts;
};

TEST_F(StepGraphsTest, DecodeStepsArePaddedToAFewSizes) {
  EXPECT_EQ(bucket(decoding(1)), (BatchBucket{1, 1, 1, 16}));
  EXPECT_EQ(bucket(decoding(3)), (BatchBucket{4, 4, 1, 16}));
  EXPECT_EQ(bucket(decoding(9)), (BatchBucket{16, 16, 1, 16}));
  EXPECT_EQ(bucket(decoding(33)), (BatchBucket{40, 40, 1, 16}));
  EXPECT_EQ(bucket(decoding(65)), (BatchBucket{80, 80, 1, 16}));
  EXPECT_EQ(bucket(decoding(97)), (BatchBucket{100, 100, 1, 16}));  // 112: parts have room for max_num_seqs
}

TEST_F(StepGraphsTest, LongerSequencesHaveWiderTables) {
  auto scheduled = decoding(2);
  scheduled[1].sequence->blocks.resize(17);
  EXPECT_EQ(bucket(scheduled)->max_blocks, 32);
}

TEST_F(StepGraphsTest, ShortPromptsAreCapturedWithWhatDecodesBesideThem) {
  auto scheduled = decoding(100);
  const auto prompt = [&](std::int32_t rows, std::int32_t before) {
    Sequence& sequence = *scheduled[42].sequence;
    sequence.tokens.assign(static_cast<std::size_t>(before + rows), 3);
    sequence.num_computed = before;
    sequence.blocks.assign(static_cast<std::size_t>(before + rows) / 4 + 1, 7);
    scheduled[42].num_new_tokens = rows;
  };
  prompt(9, 0);
  EXPECT_EQ(bucket(scheduled), (BatchBucket{112, 101, 64, 16}));  // a full batch still has room for a padding sequence
  prompt(30, 0);
  EXPECT_EQ(bucket(scheduled), (BatchBucket{160, 101, 64, 16}));
  prompt(64, 448);
  EXPECT_EQ(bucket(scheduled), (BatchBucket{192, 101, 64, 256}));
  limits.batch_expansion = true;  // an attention without multi-query rows
  EXPECT_EQ(bucket(scheduled), std::nullopt);
  limits.batch_expansion = false;
  prompt(65, 0);
  EXPECT_EQ(bucket(scheduled), std::nullopt);
  prompt(64, 449);  // of a longer sequence
  EXPECT_EQ(bucket(scheduled), std::nullopt);
}

TEST_F(StepGraphsTest, LongPromptsAreNotCaptured) {
  auto scheduled = decoding(1);
  scheduled[0].sequence->tokens.assign(65, 3);
  scheduled[0].sequence->num_computed = 0;
  scheduled[0].num_new_tokens = 65;
  EXPECT_EQ(bucket(scheduled), std::nullopt);
  EXPECT_EQ(bucket({}), std::nullopt);
  parts.graphs = nullptr;
  EXPECT_EQ(bucket(decoding(1)), std::nullopt);
}

TEST_F(StepGraphsTest, VerifyStepsHaveRoomForTheRowsThatAreMissing) {
  limits.max_drafts = 4;
  for (std::size_t count : {1, 2, 5, 20, 99, 100}) {
    for (std::size_t drafts : {1, 2, 4}) {
      const auto scheduled = decoding(count, drafts);
      const auto rows = static_cast<std::int32_t>(count * (1 + drafts)), seqs = static_cast<std::int32_t>(count);
      const auto found = bucket(scheduled);
      ASSERT_TRUE(found) << count;
      EXPECT_EQ(found->max_query_len, 5);
      EXPECT_GE(found->num_tokens, rows);
      EXPECT_LE(found->num_seqs, limits.max_batch_seqs());
      EXPECT_LE(found->num_tokens - rows, (found->num_seqs - seqs) * 5)
          << count << " sequences, " << drafts << " drafts";
    }
  }
}

// A full batch whose drafts differ from step to step, and one of fewer sequences: all run as one captured step.
TEST_F(StepGraphsTest, VerifyStepsOfAsManyRowsAreOneSize) {
  limits.max_drafts = 4;
  auto few_drafts = decoding(100);
  few_drafts[7].sequence->drafts = {3};
  auto more_drafts = decoding(100);
  for (std::size_t i = 0; i < 3; ++i) more_drafts[i].sequence->drafts.assign(4, 3);
  ASSERT_TRUE(bucket(few_drafts));
  EXPECT_EQ(bucket(few_drafts)->num_tokens, 112);
  EXPECT_EQ(bucket(few_drafts), bucket(more_drafts));
  EXPECT_EQ(bucket(few_drafts), bucket(decoding(52, 1)));
}

TEST_F(StepGraphsTest, PaddingRowsBelongToSequencesWithoutTokensAndWriteToTheReservedBlock) {
  BatchBuilder builder(parts, limits);
  const auto scheduled = decoding(3);
  const BatchBucket four = *bucket(scheduled);
  StepRows rows(false);
  rows.assign(scheduled);
  const mortise_batch& batch = builder.build(1, rows.runs(), std::vector<std::int32_t>{0, 1, 2}, {}, &four);
  EXPECT_EQ(batch.flags, static_cast<std::uint32_t>(MORTISE_BATCH_BUCKET));
  EXPECT_EQ(batch.num_tokens, 4);
  EXPECT_EQ(batch.num_real_tokens, 3);
  EXPECT_EQ(batch.num_seqs, 4);
  EXPECT_EQ(batch.num_real_seqs, 3);
  EXPECT_EQ(batch.num_logit_rows, 3);
  EXPECT_EQ(batch.max_blocks, 16);
  EXPECT_EQ(batch.max_seq_len, 64);
  EXPECT_EQ(batch.cu_seqlens_q[4], 4);
  EXPECT_EQ(batch.seq_lens[3], 0);
  EXPECT_EQ(batch.token_ids[3], 0);
  EXPECT_EQ(batch.positions[3], 0);
  EXPECT_EQ(batch.slot_mapping[3], std::int64_t{5000} * 4);
  EXPECT_EQ(batch.block_table[3 * 16], 5000);
  EXPECT_EQ(batch.block_table[16], 7);
  EXPECT_EQ(batch.block_table[16 + 3], 5000);  // beyond its blocks: any address is a valid one
}

}  // namespace
}  // namespace mortise::test
