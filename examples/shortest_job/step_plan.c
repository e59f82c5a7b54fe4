#include "step_plan.h"

#include <stdlib.h>
#include <string.h>

#include "mortise/plan_blocks.h"

/* A plan that is being made. Invariant: rows_left and blocks.num_free are what the runs in new_tokens leave. */
typedef struct step_plan {
  const mortise_schedule_view* view;
  const seq_place* order;
  mortise_schedule_plan* out; /* its preempted and max_drafts are up to date; the rest is written in the end */
  int32_t* new_tokens;        /* by index of the view; 0: does not run */
  int32_t* blocks_memory;     /* of `blocks` */
  int32_t* is_preempted;      /* by index */
  bool cuts_drafts;           /* max_drafts holds grants; else it is the lookahead, which belongs to the last run */
  mortise_plan_blocks blocks; /* counts them as the host does, those that preempted sequences share included */
  int64_t rows_left;
  int64_t reserve;     /* blocks that running sequences will need beyond this step, see still_needed() */
  int32_t num_running; /* with the admissions of this plan, without those that it preempts */
  int32_t num_admitted, num_scheduled;
} step_plan;

static int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static bool runs(const step_plan* p, int32_t i) {
  return p->view->states[i] == MORTISE_SEQ_RUNNING;
}
static int64_t first(const step_plan* p, int32_t i) {
  return mortise_plan_run_begin(p->view, i);
}
static int32_t known(const step_plan* p, int32_t i) {
  return (int32_t)(p->view->num_tokens[i] - first(p, i));
}

/* --- blocks */

/* The free blocks that sequence i takes to hold `end` tokens. */
static int64_t cost(const step_plan* p, int32_t i, int64_t end) {
  return mortise_plan_blocks_needed(&p->blocks, i, end);
}

/* The tokens that sequence i holds after a run of n: a run to the last known token also verifies drafts. */
static int64_t end_of(const step_plan* p, int32_t i, int32_t n) {
  return first(p, i) + n + (n == known(p, i) ? p->out->max_drafts[i] : 0);
}

/* The blocks that sequence i will take beyond this step: for the rest of its known tokens, and for one more. */
static int64_t still_needed(const step_plan* p, int32_t i) {
  const int64_t all = cost(p, i, end_of(p, i, known(p, i)));
  const int64_t now = p->new_tokens[i] > 0 ? cost(p, i, end_of(p, i, p->new_tokens[i])) : 0;
  return max64(0, all - now) + 1;
}

/* --- runs */

/* The most tokens that sequence i can run with the rows left and `blocks` blocks. 0: none. Where drafts may not be cut,
 * a run that would end without room for them ends one token earlier. */
static int32_t longest_run(const step_plan* p, int32_t i, int64_t blocks) {
  const int32_t block_size = p->view->block_size;
  /* The full blocks that it has: a waiting one takes those that are cached and free. */
  const int64_t full = runs(p, i) ? p->view->blocks_held[i] : first(p, i) / block_size;
  const int64_t cached = runs(p, i) ? 0 : cost(p, i, full * block_size);
  if (cached > blocks) return 0;
  const int64_t slots = (full + blocks - cached) * block_size - first(p, i);
  const int64_t room = min64(p->rows_left, slots);
  const int32_t all = known(p, i);
  if (end_of(p, i, all) - first(p, i) <= room) return all;
  return (int32_t)max64(0, min64(room, all - 1));
}

static void run(step_plan* p, int32_t i, int32_t n) {
  if (runs(p, i)) p->reserve -= still_needed(p, i);
  p->new_tokens[i] = n;
  p->rows_left -= end_of(p, i, n) - first(p, i);
  mortise_plan_blocks_run(&p->blocks, i, end_of(p, i, n));
  ++p->num_scheduled;
  if (!runs(p, i)) {
    ++p->num_running;
    ++p->num_admitted;
  }
  p->reserve += still_needed(p, i);
}

/* Takes a running sequence's blocks, and its run if the plan has one. */
static void preempt(step_plan* p, int32_t i) {
  p->reserve -= still_needed(p, i);
  const int32_t n = p->new_tokens[i];
  if (n > 0) {
    p->rows_left += end_of(p, i, n) - first(p, i);
    p->blocks.num_free += cost(p, i, end_of(p, i, n));
    p->new_tokens[i] = 0;
    --p->num_scheduled;
  }
  mortise_plan_blocks_preempt(&p->blocks, i);
  p->is_preempted[i] = 1;
  p->out->preempted[p->blocks.num_preempted - 1] = i;
  --p->num_running;
}

/* The last running sequence in the order that keeps its blocks so far; NULL: there is none. */
static const seq_place* last_running(const step_plan* p) {
  for (int32_t k = p->view->num_seqs - 1; k >= 0; --k) {
    const int32_t i = p->order[k].index;
    if (runs(p, i) && !p->is_preempted[i]) return &p->order[k];
  }
  return NULL;
}

/* Runs a running sequence, if need be with the blocks of those after it. */
static void serve(step_plan* p, int32_t i) {
  if (p->is_preempted[i] || longest_run(p, i, p->view->num_blocks) < 1) return; /* there are no rows for it */
  int32_t n;
  while ((n = longest_run(p, i, p->blocks.num_free)) < 1) {
    const int32_t victim = last_running(p)->index;
    if (victim == i) return;
    /* Sequences that this plan admits count on cached blocks that the victim may hold. The next step is soon enough. */
    if (p->num_admitted > 0 && p->blocks.num_preempted == 0) return;
    preempt(p, victim);
  }
  run(p, i, n);
}

/* --- admission */

static bool older_one_waits(const step_plan* p, const seq_place* place) {
  for (int32_t k = 0; k < p->view->num_seqs; ++k) {
    const seq_place* other = &p->order[k];
    /* The view is in order of arrival, and so are its indices. */
    if (other->priority == place->priority && other->index < place->index && !runs(p, other->index) &&
        p->new_tokens[other->index] == 0) {
      return true;
    }
  }
  return false;
}

/* Admits a waiting sequence if it may run and fits. Otherwise all later arrivals wait behind it: *num_allowed is how
 * many may be admitted, in order of arrival. */
static void admit(step_plan* p, const seq_place* place, int32_t* num_allowed) {
  const int32_t i = place->index;
  if (i >= *num_allowed || p->rows_left < 1 || p->num_running >= p->view->seq_budget || p->blocks.num_preempted > 0)
    return;
  const bool may = !place->preempted_before || !older_one_waits(p, place);
  const bool fits = may && cost(p, i, end_of(p, i, known(p, i))) <= p->blocks.num_free - p->reserve;
  const int32_t n = fits ? longest_run(p, i, p->blocks.num_free) : 0;
  if (n < 1) {
    *num_allowed = i;
  } else {
    run(p, i, n);
  }
}

/* Lets a waiting sequence take blocks and a place from running ones of worse priority, if it needs to and if all of
 * them together have enough. REQUIRES: the plan has admitted nobody yet. */
static void displace(step_plan* p, const seq_place* place) {
  const seq_place* const end = p->order + p->view->num_seqs;
  if (p->blocks.num_preempted > 0) return;
  if (place->preempted_before && older_one_waits(p, place)) return;
  const int32_t i = place->index;
  if (longest_run(p, i, p->view->num_blocks) < 1) return; /* no rows */
  const int64_t all = end_of(p, i, known(p, i));
  if (p->num_running < p->view->seq_budget && cost(p, i, all) <= p->blocks.num_free - p->reserve) return; /* no need */
  int64_t gain = 0, reserve = 0;
  int32_t num_worse = 0;
  int32_t* const worse = p->blocks.preempted; /* nobody is preempted yet */
  for (const seq_place* other = p->order; other < end; ++other) {
    const int32_t k = other->index;
    if (!runs(p, k)) continue;
    if (other->priority <= place->priority) {
      reserve += still_needed(p, k);
      continue;
    }
    worse[num_worse++] = k;
    if (p->new_tokens[k] > 0) gain += cost(p, k, end_of(p, k, p->new_tokens[k]));
  }
  if (num_worse == 0) return;
  gain += p->view->blocks_freed(p->view->host_data, worse, num_worse);
  const int64_t needed = (all + p->view->block_size - 1) / p->view->block_size + reserve;
  if (needed > p->blocks.num_free + gain) return;
  do {
    preempt(p, last_running(p)->index);
  } while (needed > p->blocks.num_free || p->num_running >= p->view->seq_budget);
  run(p, i, longest_run(p, i, p->blocks.num_free));
}

/* --- the plan */

static void grant_drafts(step_plan* p, int32_t i) {
  const int32_t n = p->new_tokens[i];
  if (n == 0 || n != known(p, i)) return;
  const int64_t end = end_of(p, i, n), before = cost(p, i, end);
  int64_t drafts = min64(p->view->lookahead[i], p->rows_left);
  while (drafts > 0 && cost(p, i, end + drafts) - before > p->blocks.num_free) --drafts;
  p->rows_left -= drafts;
  p->blocks.num_free -= cost(p, i, end + drafts) - before;
  p->out->max_drafts[i] = (int32_t)drafts;
}

static void begin(step_plan* p) {
  const mortise_schedule_view* view = p->view;
  const size_t bytes = (size_t)view->num_seqs * sizeof(int32_t);
  memset(p->new_tokens, 0, bytes);
  memset(p->is_preempted, 0, bytes);
  if (p->cuts_drafts) memset(p->out->max_drafts, 0, bytes);
  p->rows_left = view->token_budget;
  p->blocks = mortise_plan_blocks_begin(view, p->blocks_memory);
  p->reserve = 0;
  p->num_running = p->num_admitted = p->num_scheduled = 0;
  for (int32_t i = 0; i < view->num_seqs; ++i) {
    if (!runs(p, i)) continue;
    ++p->num_running;
    p->reserve += still_needed(p, i);
  }
}

/* The order has room for nobody: a scheduler before this one pinned blocks, say. Then the oldest runs, with the blocks
 * of the latest. If even those are not enough, the plan is empty: the host ends pins then. */
static void run_oldest(step_plan* p) {
  begin(p);
  int32_t latest = p->view->num_seqs, n;
  while ((n = longest_run(p, 0, p->blocks.num_free)) < 1 || (!runs(p, 0) && p->num_running >= p->view->seq_budget)) {
    do {
      --latest;
    } while (latest > 0 && !runs(p, latest));
    if (latest <= 0) {
      begin(p);
      return;
    }
    preempt(p, latest);
  }
  run(p, 0, n);
}

void make_plan(const mortise_schedule_view* view, const seq_place* order, int32_t* scratch,
               mortise_schedule_plan* plan) {
  const int32_t size = view->num_seqs;
  step_plan p = {.view = view,
                 .order = order,
                 .out = plan,
                 .new_tokens = scratch,
                 .blocks_memory = scratch + size,
                 .is_preempted = scratch + 3 * (size_t)size,
                 .cuts_drafts = (view->flags & MORTISE_VIEW_WHOLE_DRAFTS) == 0};
  begin(&p);
  for (int32_t k = 0; k < size; ++k) {
    const int32_t i = order[k].index;
    if (runs(&p, i) && known(&p, i) == 1) serve(&p, i);
  }
  int32_t num_allowed = size;
  bool is_first = true; /* of the waiting ones */
  for (int32_t k = 0; k < size; ++k) {
    const int32_t i = order[k].index;
    if (runs(&p, i)) {
      if (p.new_tokens[i] == 0 && known(&p, i) > 1) serve(&p, i);
      continue;
    }
    if (is_first) displace(&p, &order[k]);
    is_first = false;
    if (p.new_tokens[i] == 0) admit(&p, &order[k], &num_allowed);
  }
  if (p.num_scheduled == 0 && size > 0) run_oldest(&p);
  plan->num_scheduled = plan->num_pins = 0;
  plan->num_preempted = p.blocks.num_preempted;
  for (int32_t k = 0; k < size; ++k) {
    const int32_t i = order[k].index;
    if (p.cuts_drafts) grant_drafts(&p, i);
    if (p.new_tokens[i] == 0) continue;
    plan->seqs[plan->num_scheduled] = i;
    plan->num_new_tokens[plan->num_scheduled++] = p.new_tokens[i];
  }
}

uint64_t plan_scratch_size(int32_t num_seqs) {
  return 4 * (uint64_t)num_seqs;
}

static int compare(const void* a, const void* b) {
  const seq_place *x = a, *y = b;
  if (x->priority != y->priority) return x->priority < y->priority ? -1 : 1;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

void order_places(seq_place* places, int32_t num_places) {
  if (num_places > 0) qsort(places, (size_t)num_places, sizeof *places, compare);
}
