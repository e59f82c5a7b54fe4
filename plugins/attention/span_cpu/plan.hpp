// plugins/attention/span_cpu/plan.hpp: divides the rows of a batch into units of work for the threads
// (kernels/cpu/span/span.hpp). A plan is made once per step and used by every layer. It affects balance and memory
// traffic only: no choice in it changes a bit of the result.
//
//   row block  rows of one sequence with some query heads of a KV head, at most kUnitRows rows times heads. Or rows
//              gathered from the members of a prefix group, for spans that the group shares (shared_prefix.hpp). One
//              unit merges the spans of a row block. A row block that is a large part of all work (a decode with a
//              long context) is cut into pieces, which write partials.
//   unit       a row block or a piece of one, for one KV head
//   task       enough consecutive units that handing out a task costs little
//   round      tasks that may run at the same time: round 0 depends on nothing, round 1 merges partials of round 0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/span/span.hpp"
#include "mortise/batch.h"

namespace mortise::span_cpu {

struct RowBlock {
  int32_t seq;                      // the sequence; gathered rows: any member
  int32_t row, num_rows;            // rows of the batch; gathered: of Plan::gathered_rows
  int32_t row_of_run;               // the first row, counted from the first row of the sequence; not for gathered rows
  int32_t head, num_heads;          // among the query heads of a KV head
  int32_t position, last_position;  // of the first and the last row; gathered: the smallest and the largest
  int32_t seq_len;
  int32_t first_span, end_span;
  int32_t prefix;  // index of the shared prefix of gathered rows; -1: rows of one sequence
};

// Where the partials of a unit's rows are, as in cpu::SpanPartials.
struct Partials {
  int64_t at;  // offset in the partials' memory, in floats
  int64_t stride;
  int32_t count;
};

enum class Result { kOut, kFolded, kPartials };

// Spans [first_span, end_span) of a row block for a KV head. Prior partials are merged first.
struct Unit {
  int32_t row_block;
  int32_t kv_head;
  int32_t first_span, end_span;
  Result result;
  Partials partials;               // where to write them; not for kOut
  int32_t first_prior, num_prior;  // in Plan::priors
};

// Units [begin, end) of a round.
struct Task {
  int32_t begin, end;
};

struct Round {
  std::vector<Unit> units;
  std::vector<Task> tasks;
};

struct PlanShape {
  int32_t num_kv_heads;
  int32_t group;        // query heads per KV head
  int32_t value_width;  // columns of a partial
  int32_t num_threads;
  bool shares_prefixes;  // whether the plan uses the batch's prefix groups
};

// Whole spans that several sequences hold in the same blocks and read together.
struct SharedPrefix {
  int32_t seq;  // any of the sequences
  int32_t first_span, end_span;
  int32_t first_row, num_rows;  // in Plan::gathered_rows
  bool follows;                 // its rows see an earlier shared prefix, whose partials are merged first
  // The number of partials for each KV head and its query heads, [count][num_rows][num_heads]: one for all spans, or
  // one per span.
  int32_t count;
  int64_t partials;
};

// The rows of one sequence among the rows of a shared prefix.
struct Share {
  int32_t prefix;
  int32_t row;     // the sequence's first row, counted from the prefix's first row
  int32_t before;  // index of the sequence's share of the preceding prefix; -1: none
};

struct Plan {
  int32_t window;  // sliding window of the layers that use the plan; 0: none
  std::vector<RowBlock> row_blocks;
  Round rounds[2];
  std::vector<Partials> priors;
  int64_t partial_floats;
  std::vector<cpu::SpanPartials> placed_priors;  // priors with addresses, once the memory is reserved

  std::vector<SharedPrefix> prefixes;
  std::vector<int32_t> gathered_rows, gathered_positions;
  std::vector<Share> shares;
  std::vector<int32_t> last_share;  // [num_seqs], each sequence's last share; -1: none
};

constexpr int64_t kMaxPartials = 32 << 20;  // floats; a cut or a sharing that would need more is not made

// Returns the number of rows in a unit, out of `num_rows` rows that can share the prepared K and V. Larger units share
// more, but every thread should get several units.
int32_t unit_rows(int32_t num_rows, const PlanShape& shape);

// Returns the number of keys that the units read, summed over KV heads. A key counts once for each unit that reads it.
int64_t keys_read(const Plan& plan);

// Fills plan.row_blocks and everything that follows from them.
// REQUIRES: plan.window is set; the batch has been checked.
void make_plan(const mortise_batch& batch, const PlanShape& shape, Plan& plan);

}  // namespace mortise::span_cpu
