// runtime/engine/step_rows.hpp: the rows of a step: each scheduled sequence's new tokens and drafts as a run of rows,
// and which rows need logits. Engine's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.hpp"
#include "execution/step_work.hpp"

namespace mortise {

// The part of a step that belongs to one sequence: num_new_tokens of its tokens from num_computed on, then its drafts.
// Its blocks have room for all of them. A value. Engine's thread only.
struct ScheduledSequence {
  Sequence* sequence = nullptr;
  std::int32_t num_new_tokens = 0;
  std::int32_t max_drafts = 0;  // granted by the plan

  // Returns the number of rows without those of forks.
  std::int32_t num_rows() const { return num_new_tokens + static_cast<std::int32_t>(sequence->drafts.size()); }
};

// The number of rows of each kind in a step. A value.
struct BatchComposition {
  std::int32_t num_sequences = 0;
  // Generated tokens that run again after a preemption count as decode rows.
  std::int32_t prompt_rows = 0, decode_rows = 0;
  std::int32_t draft_rows = 0;  // without the further paths of draft trees

  std::int32_t num_rows() const { return prompt_rows + decode_rows + draft_rows; }
};
BatchComposition composition_of(std::span<const ScheduledSequence> scheduled);

// A row of the batch that needs logits, and why.
struct LogitRow {
  std::int32_t row = 0;       // of the batch
  std::int32_t seq = 0;       // index into the step's sequences
  std::int32_t position = 0;  // of the row's token; the result is for position + 1
  std::int32_t target = -1;   // prompt token to score, or -1: draw a token
  std::int32_t path = 0;      // 0: the sequence's own drafts; k: the drafts of its fork k - 1
};

// Returns the drafts up to and including the row's own token.
std::span<const std::int32_t> drafts_before(const Sequence& sequence, const LogitRow& row);

// The rows of the step that is being built. Invariant: runs and logit rows are in ascending order of rows. Engine's
// thread only.
class StepRows {
 public:
  // With `batch_expansion` each draft is a run of its own that shares the sequence's blocks, for an attention without
  // multi-query rows: besides prefill it takes single rows only. The bits are the same, because a row sees the keys of
  // its sequence up to its own position, whichever runs wrote them.
  explicit StepRows(bool batch_expansion) : expands_(batch_expansion) {}

  // Borrows the sequences' tokens, drafts and blocks.
  void assign(std::span<const ScheduledSequence> scheduled);

  std::span<const RowRun> runs() const { return runs_; }
  // Returns them in ascending order of rows, and so of sequences.
  std::span<const LogitRow> logit_rows() const { return logit_rows_; }

 private:
  void add(std::int32_t index, const ScheduledSequence& scheduled);
  void add_fork(std::int32_t index, const Sequence& sequence, std::size_t fork);
  void add_runs(const RowRun& run);

  const bool expands_;
  std::vector<RowRun> runs_;
  std::vector<LogitRow> logit_rows_;
  std::int32_t num_rows_ = 0;
};

}  // namespace mortise
