// runtime/engine/batch_builder.hpp: packs a step's work into one ragged batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/batch_bucket.hpp"
#include "engine/device_memory.hpp"
#include "engine/sequence.hpp"

namespace mortise {

// A sequence's share of a step: rows num_computed .. num_computed + num_new_tokens of its tokens, then its drafts. Its
// blocks reach as far.
struct ScheduledSequence {
  std::shared_ptr<Sequence> sequence;
  std::int32_t num_new_tokens = 0;
  std::int32_t max_drafts = 0;  // that the plan has room for

  std::int32_t num_rows() const { return num_new_tokens + static_cast<std::int32_t>(sequence->drafts.size()); }
};

// A row of the batch that wants logits, and what for.
struct LogitRow {
  std::int32_t row = 0;       // of the batch
  std::int32_t seq = 0;       // index into the step's sequences
  std::int32_t position = 0;  // of the row's token; what comes out belongs to position + 1
  std::int32_t target = -1;   // prompt token to score, or -1: draw a token
};

class BatchBuilder {
 public:
  BatchBuilder(const DevicePart& device, const EngineLimits& limits);

  // Builds the batch and uploads it; with a bucket, padded up to it. The result and rows() live until the next call.
  // REQUIRES: the batch fits the bucket, and with one there is a padding block.
  const mortise_batch& build(std::uint64_t step_id, std::span<const ScheduledSequence> scheduled,
                             std::span<const std::uint64_t> ended, const BatchBucket* bucket = nullptr);
  // Ascending by row.
  std::span<const LogitRow> rows() const { return rows_; }

 private:
  void add_sequence(std::int32_t index, const ScheduledSequence& scheduled);
  void add_padding(const BatchBucket& bucket);
  void add_table(std::span<const ScheduledSequence> scheduled, const BatchBucket* bucket);
  void upload();

  PackedUpload upload_;
  const std::int32_t block_size_, max_model_len_, padding_block_;
  mortise_batch batch_{};
  std::vector<LogitRow> rows_;
  std::vector<std::uint64_t> seq_ids_, ended_;
  std::vector<std::int32_t> token_ids_, positions_, cu_seqlens_q_, seq_lens_, block_table_, logit_rows_;
  std::vector<std::int64_t> slot_mapping_;
};

}  // namespace mortise
