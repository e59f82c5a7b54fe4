// share.hpp: which whole spans of a batch several sequences have in the same blocks, and how they become work of the
// decode kernel's first blocks (kernels/cuda/span_shared.cuh). A group's rows, all query heads of a kv head of all its
// members, make tiles of 64; each tile reads the spans once. What the members have of their own stays in their tiles of
// the decode kernel; all partials of a row merge in the order of spans, so that sharing changes no bit.
#pragma once

#include "attention/span_cuda/plan.hpp"

namespace mortise::span_cuda {

struct SharedGroup {
  int32_t span_begin, span_end;  // one for all members; those of a group in a group follow its spans
  bool folds;                    // no member sees a key before span_begin
  int32_t num_rows;              // of a kv head
  std::vector<int32_t> members;  // sequences of the batch
};

struct Shares {
  // What a sequence shares: spans before `covered`, which leave `partials` of them.
  struct Sequence {
    int32_t covered = 0, partials = 0;
  };
  std::vector<SharedGroup> groups;  // outer ones first
  std::vector<Sequence> sequences;  // [num_seqs]
  int32_t spans_a_run = 0;          // at most
  int64_t partial_rows = 0;         // of all members, those of their own spans too
  double ns = 0;                    // about how long it takes
};

// The best of: groups as they are, the innermost groups alone, none. REQUIRES: the batch has been checked.
Shares find_shares(const mortise_batch& batch, const PlanShape& shape);

// How many partials a group leaves each of its rows.
int32_t partials_of(const SharedGroup& group, int32_t spans_a_run);

// Fills block_begin, shared_runs and shared_rows of the plan. tiles[first_tile[s]] .. are the tiles of sequence s, the
// partials of each of which begin at the row where its merge does.
void deal_shares(const mortise_batch& batch, const PlanShape& shape, const Shares& shares,
                 const std::vector<cuda::SpanRun>& tiles, const std::vector<std::size_t>& first_tile, Plan& plan);

}  // namespace mortise::span_cuda
