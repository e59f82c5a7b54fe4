/* examples/shortest_job/step_plan.h: builds one plan within the budgets of one view, for sequences in a given order.
 * Knows the host's rules on rows, places, blocks and drafts (mortise/scheduler.h) and nothing of jobs.
 *
 *   Decodes   run first, each for one row.
 *   Prompts   of running and of waiting sequences share the rows that are left, in the order, in chunks.
 *   Admission A waiting sequence is admitted if all its known tokens fit beside what the running ones still need for
 *             theirs, and one block more for each of them. If it does not fit, it holds back all that arrived after it,
 *             but not those before it. A sequence that was preempted is admitted when nobody older of its priority
 *             waits: so it passes an older one once at most, however often it is preempted.
 *   Blocks    A running sequence that lacks blocks takes them from the last running one in the order, never from one
 *             before it. If it is the last itself, it keeps its blocks and waits. A waiting sequence takes blocks and
 *             places from running ones of worse priority, in the same way. A plan that preempts admits nobody else.
 *   Drafts    get what rows and blocks are left in the end. They are cheap to do without while prompts fill the step.
 *
 * The first running sequence in the order is never preempted and always runs, as long as it has one row. So no two
 * sequences can take each other's blocks in turns for ever. */
#ifndef SHORTEST_JOB_STEP_PLAN_H
#define SHORTEST_JOB_STEP_PLAN_H

#include <stdbool.h>

#include "mortise/scheduler.h"

/* A sequence's place in the order. */
typedef struct seq_place {
  int32_t index; /* of the view */
  int32_t priority;
  int64_t key; /* less goes first among sequences of one priority; of equal keys the earlier arrival */
  bool preempted_before;
} seq_place;

/* Sorts the places into the order. */
void order_places(seq_place* places, int32_t num_places);

/* Memory that make_plan works with, in int32_t, for a view of `num_seqs` sequences. */
uint64_t plan_scratch_size(int32_t num_seqs);

/* Fills `plan` for `view`. `order` has every sequence of the view once, in order. `scratch` has
 * plan_scratch_size(view->num_seqs) elements. The result depends on the arguments alone. */
void make_plan(const mortise_schedule_view* view, const seq_place* order, int32_t* scratch,
               mortise_schedule_plan* plan);

#endif
