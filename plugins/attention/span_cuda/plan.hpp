// plugins/attention/span_cuda/plan.hpp: divides the rows of a batch into work for the span kernels
// (kernels/cuda/span.hpp). A plan is made once per step, on the host, and used by every layer. It affects balance only:
// no choice in it changes a bit of the result.
//
// Decodes, drafts and short chunks become tiles of up to 16 rows, or 8 if there are few, for the decode kernel, whose
// workers divide all spans of all tiles evenly. If several workers take spans of one tile and KV head, they write
// partials, which are merged afterwards. Longer chunks become tiles of 128 rows for the prefill kernel, the longest
// contexts first. Whole spans that several decodes share are computed once for all of them by separate blocks
// (share.hpp); the tiles of these decodes start after those spans.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/span.hpp"
#include "mortise/batch.h"

namespace mortise::span_cuda {

inline int32_t ceil_div(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

// The fewest rows (tokens times query heads of a KV head) of a sequence for the prefill kernel. With fewer
// rows, a few tiles of 16 read the cache faster; with more, the prefill kernel uses the tensor cores better.
constexpr int32_t kPrefillFrom = 4 * cuda::kDecodeRows + 1;

struct PlanShape {
  int32_t num_heads, num_kv_heads;
  int32_t window;        // sliding window of the layers that use the plan; 0: none
  int32_t num_workers;   // of the decode kernel
  int64_t partial_rows;  // rows of partials that memory was reserved for
  bool prefill;          // false: all work goes to the decode kernel, whose launch does not depend on the batch
  // No tile is cut, so nothing has to be merged. Only without shared spans.
  bool whole_tiles = false;
  // Thread blocks of the decode kernel for spans that sequences share, and room for their lists (share.hpp). 0: nothing
  // is shared.
  int32_t num_shared_blocks = 0;
  int64_t max_shared_runs = 0, max_shared_rows = 0;
  int32_t head_dim = 128;
};

struct Plan {
  std::vector<int32_t> worker_begin;    // [num_workers + 1] into runs
  std::vector<cuda::SpanRun> runs;      // of the decode kernel
  std::vector<cuda::SpanMerge> merges;  // at most max_merges()
  std::vector<cuda::SpanRun> prefill;
  int64_t partial_rows;              // rows of partials in use
  std::vector<int32_t> block_begin;  // [num_shared_blocks + 1] into shared_runs
  std::vector<cuda::SharedRun> shared_runs;
  std::vector<cuda::SharedRow> shared_rows;
};

// REQUIRES: the batch has been checked.
void make_plan(const mortise_batch& batch, const PlanShape& shape, Plan& plan);

cuda::SpanMergeCounts merge_counts(const Plan& plan, int32_t head_dim);

// Returns whether the rows of a sequence go to the decode kernel.
bool is_decode(const mortise_batch& batch, const PlanShape& shape, int32_t seq);

// Returns an upper bound on the runs, of both kernels together, in a plan for max_tokens rows and max_seqs sequences.
int64_t max_runs(const PlanShape& shape, int64_t max_tokens, int64_t max_seqs);
// Returns an upper bound on the merges in a plan. A tile needs a merge if its spans are split between workers, or if
// some of them are computed as shared spans.
int64_t max_merges(const PlanShape& shape, int64_t max_tokens, int64_t max_seqs);

}  // namespace mortise::span_cuda
