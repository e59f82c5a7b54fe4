// runtime/bisect/row_trace.hpp: records the output of each operation for each row of one request: a hash of the row's
// bits, by choice and position. Rows do not depend on their batch (docs/numerics.md), so traces of two runs can be
// compared row by row, even if their steps differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mortise/batch.h"

namespace mortise {

// An operation at a place in a step: "the second linear after the attention of layer 3".
struct TracedOp {
  // Equal for the same operation in two runs.
  std::string key;
  std::string name;    // "linear"
  std::string output;  // "out"
  // The number of attention calls (append, run) before it in the forward. Operations with equal numbers are between the
  // same two calls. -1: after the forward, in the head and the operations after it.
  std::int32_t stretch = 0;
  std::int32_t layer = -1;        // for a call of the attention; otherwise -1
  bool is_anchor = false;         // an operation of every model: attention, hidden rows, logits
  std::int32_t dtype = 0;         // of its rows
  std::vector<std::int64_t> row;  // shape of a row
};

// The rows of an operation's output in host memory.
struct OutputRows {
  const std::byte* data;    // of row 0
  std::int64_t row_stride;  // bytes
  // A row has [outer, inner] elements, `outer_stride` bytes apart.
  std::int64_t outer = 1, outer_stride = 0, inner_bytes = 0;
};

// A row as it was computed once.
struct TracedRow {
  std::int32_t choice = 0, position = 0, token = 0;
  std::uint64_t step = 0;
  // Index in rows() of the sequence's preceding row if that ran in the same step, otherwise -1. A row after a rejected
  // draft is not a row of the sequence.
  std::int32_t behind = -1;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> hashes = {};  // (operation, hash of its output), in order
  std::vector<std::byte> captured = {};                              // output of the wanted operation
};

// The output to keep as a whole.
struct WantedOutput {
  std::int32_t choice = 0, position = 0;
  std::string op;  // its TracedOp::key
};

// The trace of a request. Filled by a StepTap on the engine's thread; read after the engine has ended. Invariant: rows_
// are in the order of the steps that computed them.
class RowTrace {
 public:
  // Records rows of the sequences first_sequence .. first_sequence + num_choices - 1, which are the choices of one
  // request.
  RowTrace(std::uint64_t first_sequence, std::int32_t num_choices, std::optional<WantedOutput> wanted = {});

  // Begins a step. Later records are of its rows.
  void begin_step(const mortise_batch& batch);
  bool sees_step() const { return !batch_rows_.empty(); }
  std::int32_t num_tokens() const { return num_tokens_; }  // rows of the step's batch
  void record(const TracedOp& op, const OutputRows& rows, std::span<const std::int32_t> batch_rows);
  // The traced rows of the step's batch, ascending.
  const std::vector<std::int32_t>& batch_rows() const { return batch_rows_; }

  const std::vector<TracedOp>& ops() const { return ops_; }
  const std::vector<TracedRow>& rows() const { return rows_; }
  // For each choice and position the first row whose token and all preceding tokens are the sequence's. `sequences`:
  // the tokens of each choice, including the prompt.
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> valid_rows(
      std::span<const std::vector<std::int32_t>> sequences) const;

 private:
  const std::uint64_t first_sequence_;
  const std::int32_t num_choices_;
  const std::optional<WantedOutput> wanted_;
  std::vector<TracedOp> ops_;
  std::map<std::string, std::uint32_t> op_numbers_;  // by key
  std::vector<TracedRow> rows_;
  // State of the current step.
  std::int32_t num_tokens_ = 0;
  std::vector<std::int32_t> batch_rows_;
  std::map<std::int32_t, std::size_t> row_at_;  // row of the batch -> index in rows_
  std::vector<std::byte> buffer_;
};

}  // namespace mortise
