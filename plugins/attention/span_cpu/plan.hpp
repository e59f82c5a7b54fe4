// plan.hpp: how the rows of one batch become units of work for the threads (kernels/cpu/span.hpp). Made once a step and
// used by every layer. No choice made here changes a bit of the result: it is about balance and reading alone.
//
//   block  a run of rows of one sequence with some query heads of a group: kUnitRows rows times heads, at most; or
//          rows gathered from the runs of a prefix group (shared_prefix.hpp), for the spans that these share. Its spans
//          are folded by one unit, or, where the block is much of all the work (a decode row with a long context), cut
//          into pieces whose partials lie in memory.
//   unit   a block (or a piece) for one kv head
//   task   neighbouring units, so many that handing them out costs little beside them
//   round  what can be done at once: first all that depends on nothing, then what merges partials
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/span/span.hpp"
#include "mortise/batch.h"

namespace mortise::span_cpu {

struct Block {
  int32_t seq;                      // gathered: any of them
  int32_t row, num_rows;            // of the batch; gathered: of Plan::gathered_rows
  int32_t row_of_run;               // the first row, counted from the run's first; of a run of one sequence
  int32_t head, num_heads;          // within the group of a kv head
  int32_t position, last_position;  // of the first and the last row; gathered: the smallest and the largest
  int32_t seq_len;
  int32_t first_span, end_span;
  int32_t prefix;  // index of the shared prefix that the rows are gathered for; -1: a run of one sequence
};

// Partials of a unit's rows, as in cpu::SpanPartials.
struct Partials {
  int64_t at;  // floats from the start of the partials' memory
  int64_t stride;
  int32_t count;
};

enum class Result { kOut, kFolded, kPartials };

// Spans [first_span, end_span) of a block for a kv head, after what is prior.
struct Unit {
  int32_t block;
  int32_t kv_head;
  int32_t first_span, end_span;
  Result result;
  Partials partials;               // where to, but for kOut
  int32_t first_prior, num_prior;  // of Plan::priors
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
  int32_t group;        // query heads of a kv head
  int32_t value_width;  // columns of a partial
  int32_t num_threads;
  bool shares_prefixes;  // the batch's prefix groups are used
};

// Whole spans that several runs hold in the same blocks and read together.
struct SharedPrefix {
  int32_t seq;  // one of them
  int32_t first_span, end_span;
  int32_t first_row, num_rows;  // of Plan::gathered_rows
  bool follows;                 // another: its rows have seen spans before these, which are merged first
  // Of each kv head and its query heads, [count][num_rows][num_heads]: one for all spans, or one each.
  int32_t count;
  int64_t partials;
};

// A run's rows among those of a shared prefix.
struct Share {
  int32_t prefix;
  int32_t row;     // of the run's first, counted from the prefix's first
  int32_t before;  // index of its share of the prefix to the left; -1: none
};

struct Plan {
  int32_t window;  // of the layers that it serves; 0: none
  std::vector<Block> blocks;
  Round rounds[2];
  std::vector<Partials> priors;
  int64_t partial_floats;
  std::vector<cpu::SpanPartials> placed_priors;  // once there is the memory

  std::vector<SharedPrefix> prefixes;
  std::vector<int32_t> gathered_rows, gathered_positions;
  std::vector<Share> shares;
  std::vector<int32_t> last_share;  // [num_seqs] of a run, the rightmost; -1: none
};

constexpr int64_t kMaxPartials = 32 << 20;  // floats; what would need more is not cut, or not shared

// The number of rows in a unit, out of `num_rows` rows that can share the prepared K and V. Larger units share more,
// but every thread should get several units.
int32_t unit_rows(int32_t num_rows, const PlanShape& shape);

// Keys that the plan's units read, each as often as a unit reads it, summed over kv heads.
int64_t keys_read(const Plan& plan);

// Fills plan.blocks and what follows from them. REQUIRES: plan.window is set; the batch has been checked.
void make_plan(const mortise_batch& batch, const PlanShape& shape, Plan& plan);

}  // namespace mortise::span_cpu
