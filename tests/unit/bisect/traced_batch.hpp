// tests/unit/bisect/traced_batch.hpp: batches and outputs for traces, made by hand.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bisect/row_trace.hpp"
#include "mortise/tensor.h"

namespace mortise::test {

// Runs of rows: sequence, first position, tokens.
struct HandRun {
  std::uint64_t sequence;
  std::int32_t first;
  std::vector<std::int32_t> tokens;
};

// Begins a step of these runs and returns its rows' numbers.
inline std::vector<std::int32_t> begin_step(RowTrace& trace, std::uint64_t step, const std::vector<HandRun>& runs) {
  std::vector<std::uint64_t> ids;
  std::vector<std::int32_t> tokens, positions, starts = {0}, rows;
  for (const HandRun& run : runs) {
    ids.push_back(run.sequence);
    for (std::size_t i = 0; i < run.tokens.size(); ++i) {
      rows.push_back(static_cast<std::int32_t>(tokens.size()));
      tokens.push_back(run.tokens[i]);
      positions.push_back(run.first + static_cast<std::int32_t>(i));
    }
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  mortise_batch batch{};
  batch.step_id = step;
  batch.num_seqs = batch.num_real_seqs = static_cast<std::int32_t>(ids.size());
  batch.num_tokens = batch.num_real_tokens = static_cast<std::int32_t>(tokens.size());
  batch.seq_ids = ids.data();
  batch.token_ids = tokens.data();
  batch.positions = positions.data();
  batch.cu_seqlens_q = starts.data();
  trace.begin_step(batch);
  return rows;
}

inline TracedOp op(const std::string& name, std::int32_t stretch, std::int64_t columns = 1) {
  return {.key = std::to_string(stretch) + ": " + name,
          .name = name,
          .output = "out",
          .stretch = stretch,
          .layer = -1,
          .is_anchor = false,
          .dtype = MORTISE_I32,
          .row = {columns}};
}

inline TracedOp attention(const std::string& name, std::int32_t stretch, std::int32_t layer) {
  TracedOp call = op(name, stretch);
  call.key = name + " of layer " + std::to_string(layer);
  call.layer = layer;
  call.is_anchor = true;
  return call;
}

// One value a row.
inline void record(RowTrace& trace, const TracedOp& op, const std::vector<std::int32_t>& rows,
                   const std::vector<std::int32_t>& values) {
  OutputRows output{};
  output.data = reinterpret_cast<const std::byte*>(values.data());
  output.row_stride = output.inner_bytes = sizeof(std::int32_t);
  trace.record(op, output, rows);
}

}  // namespace mortise::test
