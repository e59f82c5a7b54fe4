/* mortise/plan_blocks.h: counts the KV blocks that a plan takes, exactly as the host counts them when it checks the
 * plan. For schedulers in C and C++. Not part of the ABI: compiled into the plugin. Since 0.6. mortise/plan_blocks.hpp
 * wraps it.
 *
 *   int32_t* memory = ...;                                  [2 * view->num_seqs]
 *   mortise_plan_blocks blocks = mortise_plan_blocks_begin(view, memory);
 *   mortise_plan_blocks_preempt(&blocks, victim);           before any waiting sequence runs
 *   if (mortise_plan_blocks_needed(&blocks, i, end) <= blocks.num_free) mortise_plan_blocks_run(&blocks, i, end);
 *
 * `end` is the number of tokens with KV after the run: where the run begins (mortise_plan_run_begin), plus its new
 * tokens, plus its granted drafts if the run ends the known tokens.
 *
 * When several admitted sequences share a cached block that nobody holds, only the first one is charged for it; the
 * order of admissions does not matter. When several preempted sequences share a block, it becomes free with the last
 * one. For one plan and one thread. No function fails or allocates memory. */
#ifndef MORTISE_PLAN_BLOCKS_H
#define MORTISE_PLAN_BLOCKS_H

#include "mortise/scheduler.h"

/* The count of one plan so far. Borrows the view and the memory. */
typedef struct mortise_plan_blocks {
  const mortise_schedule_view* view;
  int64_t num_free;      /* blocks left; negative: the plan takes more than there are */
  int32_t* num_taken;    /* [num_seqs] by sequence: how many of its first cached free blocks the plan has taken */
  int32_t* preempted;    /* [num_preempted] */
  int32_t num_preempted; /* sequences that the plan preempts */
  int32_t num_freed;     /* blocks that they free */
} mortise_plan_blocks;

/* Starts to count a plan. `memory` has room for 2 * view->num_seqs numbers and outlives the count. */
static inline mortise_plan_blocks mortise_plan_blocks_begin(const mortise_schedule_view* view, int32_t* memory) {
  mortise_plan_blocks blocks;
  int32_t i;
  blocks.view = view;
  blocks.num_free = view->num_free_blocks;
  blocks.num_taken = memory;
  blocks.preempted = memory + view->num_seqs;
  blocks.num_preempted = blocks.num_freed = 0;
  for (i = 0; i < view->num_seqs; ++i) memory[i] = 0;
  return blocks;
}

/* The position where a run of sequence i begins: the number of its leading tokens that need not run, because their KV
 * is computed or cached. */
static inline int32_t mortise_plan_run_begin(const mortise_schedule_view* view, int32_t i) {
  return view->states[i] == MORTISE_SEQ_RUNNING ? view->num_computed[i] : view->num_cached[i];
}

/* Adds the running sequence i to those that the plan preempts. The first call comes before the plan admits any waiting
 * sequence, because what a waiting sequence takes depends on whether the plan preempts. */
static inline void mortise_plan_blocks_preempt(mortise_plan_blocks* blocks, int32_t i) {
  int32_t num_freed;
  blocks->preempted[blocks->num_preempted++] = i;
  num_freed = blocks->view->blocks_freed(blocks->view->host_data, blocks->preempted, blocks->num_preempted);
  blocks->num_free += num_freed - blocks->num_freed;
  blocks->num_freed = num_freed;
}

/* How many of the waiting sequence i's cached free blocks the plan has not taken yet. */
static inline int32_t mortise_plan_blocks_cached_free(const mortise_plan_blocks* blocks, int32_t i) {
  const mortise_schedule_view* const view = blocks->view;
  const int32_t all = view->num_cached_free_blocks[i];
  int32_t common = all; /* how many first blocks `i` and `at` have in common */
  int32_t taken = 0, at;
  for (at = i; taken < common; at = view->cached_free_with[at]) {
    const int32_t here = blocks->num_taken[at] < common ? blocks->num_taken[at] : common;
    if (here > taken) taken = here;
    if (view->cached_free_with[at] == at) break;
    if (view->cached_free_shared[at] < common) common = view->cached_free_shared[at];
  }
  return all - taken;
}

/* The blocks that sequence i takes from num_free for a run after which `end` tokens have KV. */
static inline int64_t mortise_plan_blocks_needed(const mortise_plan_blocks* blocks, int32_t i, int64_t end) {
  const mortise_schedule_view* const view = blocks->view;
  const int64_t all = (end + view->block_size - 1) / view->block_size;
  if (view->states[i] == MORTISE_SEQ_RUNNING) return all > view->blocks_held[i] ? all - view->blocks_held[i] : 0;
  if (blocks->num_preempted > 0) return all;
  return all - view->num_cached[i] / view->block_size + mortise_plan_blocks_cached_free(blocks, i);
}

/* Records that the plan admits the waiting sequence i, with all its cached blocks. */
static inline void mortise_plan_blocks_admit(mortise_plan_blocks* blocks, int32_t i) {
  const mortise_schedule_view* const view = blocks->view;
  int32_t common = view->num_cached_free_blocks[i], at;
  for (at = i; blocks->num_taken[at] < common; at = view->cached_free_with[at]) {
    blocks->num_taken[at] = common;
    if (view->cached_free_with[at] == at) break;
    if (view->cached_free_shared[at] < common) common = view->cached_free_shared[at];
  }
}

/* Records that the plan runs sequence i until `end` tokens have KV. Once for each sequence. */
static inline void mortise_plan_blocks_run(mortise_plan_blocks* blocks, int32_t i, int64_t end) {
  blocks->num_free -= mortise_plan_blocks_needed(blocks, i, end);
  if (blocks->view->states[i] != MORTISE_SEQ_RUNNING) mortise_plan_blocks_admit(blocks, i);
}

#endif
