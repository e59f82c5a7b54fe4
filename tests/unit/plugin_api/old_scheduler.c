/* tests/unit/plugin_api/old_scheduler.c: a scheduler, first come, first served, as somebody wrote it against the headers of ABI
 * 0.5. old_plugin_test.sh builds it with those headers; it must load in every host that takes plugins of 0.5. */
#include <stdlib.h>

#include "mortise/scheduler.h"

typedef struct scheduler {
  uint64_t num_events;
} scheduler;

static mortise_status supports(const mortise_query* query, mortise_error* reason) {
  (void)query;
  (void)reason;
  return MORTISE_OK;
}

static mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                             mortise_error* error) {
  (void)host;
  (void)args;
  (void)error;
  *instance = calloc(1, sizeof(scheduler));
  return *instance == NULL ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_OK;
}

static mortise_status events(mortise_scheduler* self, const mortise_schedule_events* happened, mortise_error* error) {
  (void)error;
  ((scheduler*)self)->num_events += (uint64_t)happened->num_events;
  return MORTISE_OK;
}

static int32_t start_of(const mortise_schedule_view* view, int32_t i) {
  return view->states[i] == MORTISE_SEQ_RUNNING ? view->num_computed[i] : view->num_cached[i];
}

static int64_t blocks_of(const mortise_schedule_view* view, int32_t i, int64_t end, int preempts) {
  const int64_t all = (end + view->block_size - 1) / view->block_size;
  if (view->states[i] == MORTISE_SEQ_RUNNING) return all > view->blocks_held[i] ? all - view->blocks_held[i] : 0;
  return preempts ? all : all - view->num_cached[i] / view->block_size + view->num_cached_free_blocks[i];
}

/* The oldest runs, if need be with the blocks of the latest; then whoever fits. No drafts, unless all are wanted. */
static mortise_status plan(mortise_scheduler* self, const mortise_schedule_view* view, mortise_schedule_plan* out,
                           mortise_error* error) {
  int64_t blocks = view->num_free_blocks, rows = view->token_budget, places = view->seq_budget;
  const int whole = (view->flags & MORTISE_VIEW_WHOLE_DRAFTS) != 0;
  int32_t i, k, last = view->num_seqs;
  (void)self;
  (void)error;
  out->num_scheduled = out->num_preempted = out->num_pins = 0;
  for (i = 0; i < view->num_seqs; ++i) places -= view->states[i] == MORTISE_SEQ_RUNNING;
  for (i = 0; i < last; ++i) {
    const int waits = view->states[i] == MORTISE_SEQ_WAITING;
    int64_t n = view->num_tokens[i] - start_of(view, i), end;
    out->max_drafts[i] = whole ? view->lookahead[i] : 0;
    for (;; --n) {
      const int ends = start_of(view, i) + n == view->num_tokens[i];
      end = start_of(view, i) + n + (ends ? out->max_drafts[i] : 0);
      if (n == 0) break;
      if (end - start_of(view, i) > rows) continue;
      if (blocks_of(view, i, end, out->num_preempted > 0) <= blocks && (!waits || places > 0)) break;
      if (n > 1 || i > 0) continue;
      for (k = last - 1; k > 0 && view->states[k] != MORTISE_SEQ_RUNNING; --k) {
      }
      if (k <= 0) continue;
      last = k;
      out->preempted[out->num_preempted++] = k;
      blocks += view->blocks_freed_if_preempted[k];
      ++places;
      ++n; /* once more with these blocks */
    }
    if (n == 0) continue;
    out->seqs[out->num_scheduled] = i;
    out->num_new_tokens[out->num_scheduled++] = (int32_t)n;
    blocks -= blocks_of(view, i, end, out->num_preempted > 0);
    rows -= end - start_of(view, i);
    places -= waits;
  }
  return MORTISE_OK;
}

static const mortise_scheduler_table table = {sizeof(mortise_scheduler_table), 0, events, plan};
static const mortise_component component = {sizeof(mortise_component),
                                            0,
                                            MORTISE_KIND_SCHEDULER,
                                            0,
                                            MORTISE_CAP_EXACT,
                                            "old_scheduler",
                                            "first come, first served, built with the headers of 0.5",
                                            "{\"type\": \"object\", \"additionalProperties\": false}",
                                            NULL,
                                            &table,
                                            supports,
                                            create,
                                            free,
                                            NULL,
                                            NULL,
                                            NULL};
static const mortise_component* const components[] = {&component};
static const mortise_module module = {sizeof(mortise_module), 0,       MORTISE_ABI_MINOR, 1, "org.example.old", "Somebody",
                                      "1.0.0",                "MIT", components};

MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(void) {
  return &module;
}
