// runtime/bisect/row_trace.hpp: what each operation made of each row of one request: a hash of the row's bits, under
// the row's choice and position. Rows do not depend on their batch (docs/numerics.md), so traces of two runs can be
// compared row by row, whatever the steps were that the rows ran in.
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

// An operation at one place of a step: "the second linear after the attention of layer 3".
struct TracedOp {
  // Equal for the same operation of two runs.
  std::string key;
  std::string name;    // "linear"
  std::string output;  // "out"
  // Calls into the attention (append, run) before it in the forward: two operations with the same number are between
  // the same two calls. -1: behind the forward, of the head and what follows it.
  std::int32_t stretch = 0;
  std::int32_t layer = -1;        // of a call into the attention; else -1
  bool is_anchor = false;         // every model has it: attention, hidden rows, logits
  std::int32_t dtype = 0;         // of its rows
  std::vector<std::int64_t> row;  // shape of one row
};

// An output's rows in host memory, as an operation wrote them.
struct OutputRows {
  const std::byte* data;    // of row 0
  std::int64_t row_stride;  // bytes
  // Of a row: [outer, inner] elements, `outer_stride` bytes apart.
  std::int64_t outer = 1, outer_stride = 0, inner_bytes = 0;
};

// One row as it was computed once.
struct TracedRow {
  std::int32_t choice = 0, position = 0, token = 0;
  std::uint64_t step = 0;
  // The row of this sequence that it stands behind, if that was in the same step: an index of rows(), else -1. A row
  // behind a draft that was rejected is no row of the sequence.
  std::int32_t behind = -1;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> hashes = {};  // operation, hash of what it wrote; as they ran
  std::vector<std::byte> captured = {};                              // what the wanted operation wrote
};

// Which output is to be kept as a whole.
struct WantedOutput {
  std::int32_t choice = 0, position = 0;
  std::string op;  // a key
};

// Filled by a StepTap on the engine's thread, read when the engine has ended.
class RowTrace {
 public:
  // Rows of the sequences first_sequence .. first_sequence + num_choices - 1, the choices of a request.
  RowTrace(std::uint64_t first_sequence, std::int32_t num_choices, std::optional<WantedOutput> wanted = {});

  // The rows of a step. What is recorded afterwards is of them.
  void begin_step(const mortise_batch& batch);
  bool sees_step() const { return !batch_rows_.empty(); }
  std::int32_t num_tokens() const { return num_tokens_; }  // rows of the step's batch
  void record(const TracedOp& op, const OutputRows& rows, std::span<const std::int32_t> batch_rows);
  // Of the step, ascending: the batch's rows that are traced.
  const std::vector<std::int32_t>& batch_rows() const { return batch_rows_; }

  const std::vector<TracedOp>& ops() const { return ops_; }
  const std::vector<TracedRow>& rows() const { return rows_; }
  // For each choice and position the first row whose token, and those before it, are the sequence's. `sequences`: the
  // tokens of each choice, prompt included.
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> valid_rows(
      std::span<const std::vector<std::int32_t>> sequences) const;

 private:
  const std::uint64_t first_sequence_;
  const std::int32_t num_choices_;
  const std::optional<WantedOutput> wanted_;
  std::vector<TracedOp> ops_;
  std::map<std::string, std::uint32_t> op_numbers_;  // by key
  std::vector<TracedRow> rows_;
  // Of the running step.
  std::int32_t num_tokens_ = 0;
  std::vector<std::int32_t> batch_rows_;
  std::map<std::int32_t, std::size_t> row_at_;  // by row of the batch: index of rows_
  std::vector<std::byte> buffer_;
};

}  // namespace mortise
