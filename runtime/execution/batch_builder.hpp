// runtime/execution/batch_builder.hpp: packs a step's work into one ragged batch. Only the thread that runs steps calls
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execution/batch_bucket.hpp"
#include "execution/device_memory.hpp"
#include "execution/limits.hpp"
#include "execution/prefix_groups.hpp"
#include "execution/step_work.hpp"

namespace mortise {

// Invariant: batches of one bucket have the same array addresses, except the logit rows. Used only by the thread that
// runs steps.
class BatchBuilder {
 public:
  BatchBuilder(const ShardParts& parts, const ExecutionLimits& limits);

  // Turns the prefix groups of the following batches on or off; at first ShardParts::prefix_groups decides.
  void tell_prefix_groups(bool tell) { tells_prefix_groups_ = tell; }
  // Builds the batch, padded to `bucket` if there is one, and uploads it. `logit_rows`: the rows that need logits,
  // ascending. The result is valid until the next call. REQUIRES: the batch fits the bucket, and there is a padding
  // block if a bucket is given.
  const mortise_batch& build(std::uint64_t step_id, std::span<const RowRun> runs,
                             std::span<const std::int32_t> logit_rows, std::span<const std::uint64_t> ended,
                             const BatchBucket* bucket = nullptr);

 private:
  void add_run(const RowRun& run);
  void add_padding(const BatchBucket& bucket);
  void add_table(std::span<const RowRun> runs, const BatchBucket* bucket);
  void add_prefix_groups(std::span<const RowRun> runs);
  void upload();

  PackedUpload upload_;
  const std::int32_t block_size_, max_model_len_, padding_block_;
  bool tells_prefix_groups_;
  mortise_batch batch_{};
  PrefixGroups prefix_groups_;
  std::vector<std::uint64_t> seq_ids_, ended_;
  std::vector<std::int32_t> token_ids_, positions_, cu_seqlens_q_, seq_lens_, block_table_, logit_rows_;
  std::vector<std::int64_t> slot_mapping_;
};

}  // namespace mortise
