// runtime/execution/limits.hpp: the sizes of everything that a step needs memory for. Fixed while an Execution lives.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mortise {

struct ExecutionLimits {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_batched_tokens = 0;
  std::int32_t max_logit_rows = 0;  // rows of one call of the head with the whole vocabulary
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 0;
  std::int32_t num_blocks = 0;
  std::int32_t max_paths = 1;  // of a sequence's draft tree
  // Each draft is a run of its own in the batch: the attention has no multi-query rows, or a script wants it so.
  bool batch_expansion = false;
  // A block beyond num_blocks that no sequence holds: rows that pad a batch write there. -1: there is none, and no
  // batch is padded.
  std::int32_t padding_block = -1;

  // Drafts of a sequence and step, of the proposer that drafts most; 0 without one. It decides which batches are
  // captured as graphs, and no size: see Execution::set_max_draft_tokens.
  std::int32_t max_draft_tokens = 0;

  bool operator==(const ExecutionLimits&) const = default;
  bool same_sizes(const ExecutionLimits& other) const {
    ExecutionLimits same_drafts = other;
    same_drafts.max_draft_tokens = max_draft_tokens;
    return *this == same_drafts;
  }

  // Runs of rows in one batch, at most.
  std::int32_t max_batch_runs() const {
    return batch_expansion ? max_batched_tokens
                           : std::min(max_num_seqs * max_paths, std::max(max_num_seqs, max_batched_tokens));
  }
  // With the sequences that the rows of padding belong to, of up to `num_rows` rows each, one or more. Without room for
  // them beside a full batch, each number of rows would be a size of its own (StepGraphs).
  static constexpr std::int32_t kMostPadding = 64;  // rows
  std::int32_t max_padded_seqs(std::int32_t num_rows) const {
    return max_batch_runs() + (num_rows > 1 ? kMostPadding / num_rows : 0) + 1;
  }
  // What model and attention make room for: any number of drafts.
  std::int32_t max_batch_seqs() const { return max_padded_seqs(2); }
};

}  // namespace mortise
