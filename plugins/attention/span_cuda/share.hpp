// plugins/attention/span_cuda/share.hpp: finds whole spans that several sequences of a batch hold in the same blocks,
// and gives them to the first thread blocks of the decode kernel (kernels/cuda/span_shared.cuh). The rows of a group
// (all query heads of a KV head of all members) form tiles of 64, and each tile reads the spans once. The other spans
// of the members stay in their own tiles. All partials of a row are merged in the order of spans, so sharing changes no
// bit.
#pragma once

#include "attention/span_cuda/plan.hpp"

namespace mortise::span_cuda {

struct SharedGroup {
  int32_t span_begin, span_end;  // the same spans for all members; those of an inner group follow its parent's
  bool folds;                    // no member sees a key before span_begin, so the spans are folded into one partial
  int32_t num_rows;              // rows for each KV head
  std::vector<int32_t> members;  // sequences of the batch
};

struct Shares {
  // The spans of a sequence before `covered` are shared, and give `partials` partials.
  struct Sequence {
    int32_t covered = 0, partials = 0;
  };
  std::vector<SharedGroup> groups;  // outer groups first
  std::vector<Sequence> sequences;  // [num_seqs]
  int32_t spans_a_run = 0;          // the most spans in a run
  int64_t partial_rows = 0;         // of all members, including the partials of their own spans
  double ns = 0;                    // estimated time
};

// Returns the fastest of: all groups, only the innermost groups, no sharing. REQUIRES: the batch has been checked.
Shares find_shares(const mortise_batch& batch, const PlanShape& shape);

// Returns the number of partials that a group gives each of its rows.
int32_t partials_of(const SharedGroup& group, int32_t spans_a_run);

// Fills block_begin, shared_runs and shared_rows of the plan. The tiles of sequence s begin at tiles[first_tile[s]];
// the partials of each tile begin where its merge does.
void deal_shares(const mortise_batch& batch, const PlanShape& shape, const Shares& shares,
                 const std::vector<cuda::SpanRun>& tiles, const std::vector<std::size_t>& first_tile, Plan& plan);

}  // namespace mortise::span_cuda
