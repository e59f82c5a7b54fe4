// runtime/execution/step_work.hpp: the work of one step, in host memory: runs of rows, and which rows draw or score a
// token. Nothing here knows of requests, so the engine and the runners of draft models give the same kind of work.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/block_pool.hpp"
#include "sampling/edits.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

// Consecutive rows of one sequence: known tokens from position `first` on, then drafts. A run may be a fork of a
// sequence: it has the sequence's id, and its own blocks from that of the last known token on. Runs of one batch may
// share blocks, and a run may read the KV that another writes, because a layer writes all rows before it reads any.
// Borrows everything. A value.
struct RowRun {
  std::uint64_t seq_id = 0;
  std::int32_t first = 0;
  std::span<const std::int32_t> known, drafts;
  std::span<const BlockId> blocks;  // of the sequence from its beginning; they reach as far as the rows

  std::int32_t num_rows() const { return static_cast<std::int32_t>(known.size() + drafts.size()); }
};

// The edits of a row's logits. Borrowed.
struct RowEdits {
  // The sequence whose edits these are: the device keeps them and gets only changes. 0: edits of this row alone.
  std::uint64_t seq_id = 0;
  std::span<const LogitEdit> edits;
  std::span<const std::int32_t> changes;  // see SequenceEdits; empty without an id
};

// Sampling arguments as in mortise_sample_args, one entry per row.
struct SamplingArrays {
  std::vector<float> temperatures, top_ps, min_ps;
  std::vector<std::int32_t> top_ks;
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> positions;
  std::vector<RowEdits> edits;
  std::vector<std::int32_t> allowed_index;   // -1: every token is allowed
  std::vector<std::uint32_t> allowed_masks;  // empty: no row is restricted
};

// A range of consecutive entries of DrawRows.
struct DrawRange {
  std::size_t first = 0, count = 0;
};

// Logits on the host, [rows of `range`, vocabulary] with rows `stride` floats apart, and the tokens drawn from them,
// which the receiver may replace.
struct DrawnLogits {
  DrawRange range;
  std::span<const float> logits;
  std::size_t stride = 0;
  std::span<std::int32_t> tokens;
};

// A draft that follows a drawing row. Borrows the distribution.
struct RowDraft {
  std::size_t draw = 0;  // index in DrawRows
  std::int32_t token = 0;
  std::span<const float> distribution;  // it was drawn from, [vocabulary]; empty: the draft was certain
};

// Rows that draw a token. A value.
struct DrawRows {
  std::vector<std::int32_t> rows;     // of the batch
  std::vector<std::int32_t> num_top;  // alternatives beside the token; -1: no log probability
  SamplingArrays sampling;
  // Tokens drawn per row, each without replacement; log probabilities are of the first. REQUIRES, above 1: no row has
  // edits of its own.
  std::int32_t num_choices = 1;
  // Ranges, ascending, whose logits the host wants. launch() then waits for the device and passes them to on_logits; a
  // range may come in pieces.
  std::vector<DrawRange> wanted_logits;
  std::function<void(const DrawnLogits&)> on_logits;
  // Drafts to verify by rejection sampling, by ascending draw. If the device can verify them (mortise/ext/rejection.h),
  // it does, and on_logits is not called; otherwise on_logits must.
  std::vector<RowDraft> drafts;

  std::size_t size() const { return rows.size(); }
};

// Rows whose next token is given, to compute its log probability. A value.
struct ScoreRows {
  std::vector<std::int32_t> rows;  // of the batch
  std::vector<std::int32_t> targets, num_top;

  std::size_t size() const { return rows.size(); }
};

// One step. Everything that it points to is borrowed until collect() has returned.
struct StepWork {
  std::uint64_t step_id = 0;
  std::span<const RowRun> runs;
  const DrawRows& draws;
  const ScoreRows& scores;
  std::span<const std::uint64_t> ended;  // sequences that ended since the last step
};

struct StepResults {
  std::vector<TokenInfo> draws, scores;       // parallel to the rows of StepWork
  std::vector<std::int32_t> further_choices;  // [draws, num_choices - 1]; empty with one choice
};

}  // namespace mortise
