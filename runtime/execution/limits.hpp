// runtime/execution/limits.hpp: the sizes of everything that a step needs memory for. Fixed while an Execution lives.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mortise {

// The sizes that an Execution has buffers for. A value.
struct ExecutionLimits {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_batched_tokens = 0;
  std::int32_t max_logit_rows = 0;  // in one call of the head for the whole vocabulary
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 0;
  std::int32_t num_blocks = 0;
  std::int32_t max_paths = 1;  // of a sequence's draft tree
  // Each draft is a run of its own in the batch, because the attention has no multi-query rows or the script asks for
  // it.
  bool batch_expansion = false;
  // A block beyond num_blocks that no sequence holds. The rows that pad a batch write to it. -1: there is none, and no
  // batch is padded.
  std::int32_t padding_block = -1;

  // The most drafts per sequence and step of any proposer; 0 without a proposer. It decides which batches are captured
  // as graphs, but no size: see Execution::set_max_drafts.
  std::int32_t max_drafts = 0;

  bool operator==(const ExecutionLimits&) const = default;
  bool same_sizes(const ExecutionLimits& other) const {
    ExecutionLimits same_drafts = other;
    same_drafts.max_drafts = max_drafts;
    return *this == same_drafts;
  }

  // The most runs of rows in one batch.
  std::int32_t max_batch_runs() const {
    return batch_expansion ? max_batched_tokens
                           : std::min(max_num_seqs * max_paths, std::max(max_num_seqs, max_batched_tokens));
  }
  // The most padding rows of a batch. Padding has room beside a full batch; otherwise each number of rows would need
  // its own bucket (StepGraphs).
  static constexpr std::int32_t kMaxPadding = 64;
  // The most runs of rows in a padded batch, if a padding sequence has up to `num_rows` rows.
  std::int32_t max_padded_seqs(std::int32_t num_rows) const {
    return max_batch_runs() + (num_rows > 1 ? kMaxPadding / num_rows : 0) + 1;
  }
  // The batch size for which model and attention are activated: enough for any number of drafts.
  std::int32_t max_batch_seqs() const { return max_padded_seqs(2); }
};

}  // namespace mortise
