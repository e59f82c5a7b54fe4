// runtime/execution/step_work.hpp: what one step is to compute, in host memory: runs of rows, and what is wanted of
// some of them. Nothing here knows of requests, so the engine and the runners of draft models give the same work.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/block_pool.hpp"
#include "sampling/edits.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

// Rows of one sequence that follow each other: from position `first` on known tokens, then drafts. A run of drafts may
// be a fork of a sequence: it has the sequence's id and blocks of its own from the first draft on. Runs of one batch
// may share blocks, and one may read what another writes: a layer writes all rows before it reads any. Borrows
// everything.
struct RowRun {
  std::uint64_t seq_id = 0;
  std::int32_t first = 0;
  std::span<const std::int32_t> known, drafts;
  std::span<const BlockId> blocks;  // of the sequence from its beginning; they reach as far as the rows

  std::int32_t num_rows() const { return static_cast<std::int32_t>(known.size() + drafts.size()); }
};

// The edits of a row's logits. Borrowed.
struct RowEdits {
  // Of a sequence with this id, or 0: of this row alone. A sequence's are kept on the device and brought up to date.
  std::uint64_t seq_id = 0;
  std::span<const LogitEdit> edits;
  std::span<const std::int32_t> changes;  // see SequenceEdits; without an id: none
};

// Sampling arguments, one entry a row, as mortise_sample_args has them.
struct SamplingArrays {
  std::vector<float> temperatures, top_ps, min_ps;
  std::vector<std::int32_t> top_ks;
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> positions;
  std::vector<RowEdits> edits;
  std::vector<std::int32_t> allowed_index;   // -1: every token is allowed
  std::vector<std::uint32_t> allowed_masks;  // empty: no row is restricted
};

// Some neighbouring rows of those that draw.
struct DrawRange {
  std::size_t first = 0, count = 0;
};

// Brought to the host: logits [rows of `range`, vocabulary], `stride` apart, and the tokens that were drawn from them,
// which may be replaced.
struct DrawnLogits {
  DrawRange range;
  std::span<const float> logits;
  std::size_t stride = 0;
  std::span<std::int32_t> tokens;
};

// Rows that draw a token.
struct DrawRows {
  std::vector<std::int32_t> rows;     // of the batch
  std::vector<std::int32_t> num_top;  // alternatives that are wanted beside the token; -1: no log probability at all
  SamplingArrays sampling;
  // Tokens a row, each drawn without those before it; log probabilities are of the first. REQUIRES, above 1: no row has
  // edits of its own.
  std::int32_t num_choices = 1;
  // Ranges, ascending, whose logits the host wants. They are given to on_logits within launch(), which waits for the
  // device then; a range may come in pieces.
  std::vector<DrawRange> wanted_logits;
  std::function<void(const DrawnLogits&)> on_logits;

  std::size_t size() const { return rows.size(); }
};

// Rows whose next token is given, and whose log probability is wanted.
struct ScoreRows {
  std::vector<std::int32_t> rows;  // of the batch
  std::vector<std::int32_t> targets, num_top;

  std::size_t size() const { return rows.size(); }
};

// One step. What it points to is borrowed until collect() has returned.
struct StepWork {
  std::uint64_t step_id = 0;
  std::span<const RowRun> runs;
  const DrawRows& draws;
  const ScoreRows& scores;
  std::span<const std::uint64_t> ended;  // sequences that ended since the last step
};

struct StepResults {
  std::vector<TokenInfo> draws, scores;       // parallel to the rows of the work
  std::vector<std::int32_t> further_choices;  // [draws, num_choices - 1]; empty with one choice
};

}  // namespace mortise
