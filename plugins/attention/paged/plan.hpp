// plan.hpp: how the rows of one batch become units of work for the threads (kernels/cpu/span.hpp). Made once a step and
// used by every layer. No choice made here changes a bit of the result: it is about balance alone.
//
//   block  a run of rows of one sequence with some query heads of a group: kUnitRows rows times heads, at most. Its
//          spans are folded by one unit, or, where the block is much of all the work (a decode row with a long
//          context), cut into pieces whose partials lie in memory until a second round merges them.
//   unit   a block (or a piece) for one kv head
//   task   neighbouring units, so many that handing them out costs little beside them
#pragma once

#include <cstdint>
#include <vector>

#include "mortise/batch.h"

namespace mortise::paged {

struct Block {
  int32_t seq;
  int32_t row, num_rows;    // of the batch
  int32_t head, num_heads;  // within the group of a kv head
  int32_t position;         // of the first row
  int32_t seq_len;
  int32_t first_span, end_span;
};

// Spans [first_span, end_span) of a block: all of them (partials < 0), or a piece.
struct Unit {
  int32_t block;
  int32_t kv_head;
  int32_t first_span, end_span;
  int64_t partials;  // floats from the start of the partials' memory; -1: none
};

// Units [begin, end) of Plan::units, or of Plan::merges.
struct Task {
  int32_t begin, end;
};

struct Plan {
  int32_t window;  // of the layers that it serves; 0: none
  std::vector<Block> blocks;
  std::vector<Unit> units;
  std::vector<Task> tasks;
  std::vector<Unit> merges;  // after all units: one per cut block and kv head, over all its partials
  std::vector<Task> merge_tasks;
  int64_t partial_floats;
};

struct PlanShape {
  int32_t num_kv_heads;
  int32_t group;        // query heads of a kv head
  int32_t value_width;  // columns of a partial
  int32_t num_threads;
};

// Fills plan.blocks and what follows from them. REQUIRES: plan.window is set; the batch has been checked.
void make_plan(const mortise_batch& batch, const PlanShape& shape, Plan& plan);

}  // namespace mortise::paged
