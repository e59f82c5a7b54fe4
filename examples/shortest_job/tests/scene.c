#include "scene.h"

#include <stdio.h>
#include <string.h>

void plan_scene(scene* s, const mortise_component* component, int32_t ageing) {
  simulation sim;
  sim_begin(&sim, component, ageing, 1);
  uint64_t ids[MAX_ROWS] = {0};
  int32_t computed[MAX_ROWS] = {0}, cached[MAX_ROWS] = {0}, cached_free[MAX_ROWS] = {0}, held[MAX_ROWS] = {0};
  int32_t states[MAX_ROWS], num_tokens[MAX_ROWS], lookahead[MAX_ROWS], priorities[MAX_ROWS], with[MAX_ROWS],
      shared[MAX_ROWS], seqs[MAX_ROWS], new_tokens[MAX_ROWS], preempted[MAX_ROWS];
  for (int32_t i = 0; i < s->num_rows; ++i) {
    const row* r = &s->rows[i];
    ids[i] = sim_add(&sim, r->num_tokens, s->max_new_tokens[i], s->max_new_tokens[i], r->priority);
    states[i] = r->state;
    num_tokens[i] = r->num_tokens;
    (r->state == R ? computed : cached)[i] = r->first;
    (r->state == R ? held : cached_free)[i] = r->blocks;
    lookahead[i] = s->drafts[i] = r->lookahead;
    priorities[i] = r->priority;
    with[i] = r->cached_shared > 0 ? r->cached_with : i;
    shared[i] = r->cached_shared;
  }
  const uint64_t groups[MAX_ROWS] = {0};
  const mortise_schedule_view view = {.struct_size = sizeof view,
                                      .flags = s->flags,
                                      .num_seqs = s->num_rows,
                                      .block_size = 16,
                                      .token_budget = s->token_budget,
                                      .seq_budget = s->seq_budget,
                                      .num_free_blocks = s->num_free_blocks,
                                      .num_blocks = 100,
                                      .seq_ids = ids,
                                      .states = states,
                                      .num_tokens = num_tokens,
                                      .num_computed = computed,
                                      .num_cached = cached,
                                      .num_cached_free_blocks = cached_free,
                                      .blocks_held = held,
                                      .blocks_freed_if_preempted = held,
                                      .blocks_freed = sum_of_held,
                                      .host_data = held,
                                      .lookahead = lookahead,
                                      .priorities = priorities,
                                      .arrivals = ids,
                                      .groups = groups,
                                      .cached_free_with = with,
                                      .cached_free_shared = shared};
  mortise_schedule_plan plan = {.struct_size = sizeof plan,
                                .seqs = seqs,
                                .num_new_tokens = new_tokens,
                                .preempted = preempted,
                                .max_drafts = s->drafts};
  mortise_error error = {.struct_size = sizeof error};
  const mortise_scheduler_table* table = component->table;
  CHECK(table->plan(sim.scheduler, &view, &plan, &error) == MORTISE_OK);
  if (plan.num_scheduled > 0) check_plan(&view, &plan);
  memset(s->tokens, 0, sizeof s->tokens);
  memset(s->preempted, 0, sizeof s->preempted);
  for (int32_t k = 0; k < plan.num_scheduled; ++k) s->tokens[seqs[k]] = new_tokens[k];
  for (int32_t k = 0; k < plan.num_preempted; ++k) s->preempted[preempted[k]] = 1;
  sim_end(&sim);
}

void expect(const int32_t* found, int32_t a, int32_t b, int32_t c) {
  if (found[0] == a && found[1] == b && found[2] == c) return;
  fprintf(stderr, "expected %d %d %d, got %d %d %d\n", a, b, c, found[0], found[1], found[2]);
  CHECK(!"the plan");
}
