#define _POSIX_C_SOURCE 200809L
#include "simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mortise/ext/sequences.h"

const char* context = "";

void check(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: %s: not true: %s\n", file, line, context, what);
  exit(1);
}

/* --- the host */

static void* allocate(const mortise_host* host, uint64_t bytes, uint64_t alignment) {
  test_host* const self = (test_host*)host;
  if (self->refuses) return NULL;
  void* memory = NULL;
  if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes) != 0) return NULL;
  ++self->num_allocations;
  return memory;
}
static void give_back(const mortise_host* host, void* memory) {
  if (memory != NULL) --((test_host*)host)->num_allocations;
  free(memory);
}
static void write_log(const mortise_host* host, int32_t level, mortise_string_view text) {
  (void)host;
  (void)level;
  fprintf(stderr, "%.*s\n", (int)text.size, text.data);
}
static uint64_t now_ns(const mortise_host* host) {
  return host == NULL;
}
static const void* no_ext(const mortise_host* host, const char* id) {
  return host == NULL ? id : NULL;
}

test_host make_host(void) {
  return (test_host){.host = {.struct_size = sizeof(mortise_host),
                              .abi_minor = MORTISE_ABI_MINOR,
                              .name = "test",
                              .version = "0",
                              .log = write_log,
                              .allocate = allocate,
                              .free = give_back,
                              .now_ns = now_ns,
                              .get_ext = no_ext}};
}

static mortise_status get_int(void* ageing, const char* name, int64_t* value) {
  if (strcmp(name, "ageing") != 0) return MORTISE_NOT_FOUND;
  *value = *(const int32_t*)ageing;
  return MORTISE_OK;
}

mortise_option_reader make_reader(int32_t* ageing) {
  return (mortise_option_reader){.struct_size = sizeof(mortise_option_reader), .context = ageing, .get_int = get_int};
}

/* Sequences of the simulation share no blocks. `held` is the view's blocks_held. */
int32_t sum_of_held(const void* held, const int32_t* seqs, int32_t num_seqs) {
  int32_t sum = 0;
  for (int32_t k = 0; k < num_seqs; ++k) sum += ((const int32_t*)held)[seqs[k]];
  return sum;
}

/* --- the rules of mortise/scheduler.h, counted as runtime/engine/planner.cpp does */

static int64_t blocks_for(const mortise_schedule_view* view, int64_t tokens) {
  return (tokens + view->block_size - 1) / view->block_size;
}

/* How many blocks starting sequence i takes from the cached free ones, when those marked in `started` start, too: the
 * blocks of a path are numbered from its beginning, and block b of i is block b of an earlier one if they share it. */
static int32_t newly_taken(const mortise_schedule_view* view, const bool* started, int32_t i) {
  int32_t count = 0;
  for (int32_t b = 0; b < view->num_cached_free_blocks[i]; ++b) {
    bool taken = false;
    for (int32_t other = 0; other < view->num_seqs && !taken; ++other) {
      if (!started[other] || other == i) continue;
      /* Walks up from both: the same block has the same owner, the earliest sequence that has it. */
      int32_t x = i, y = other;
      if (b >= view->num_cached_free_blocks[other]) continue;
      while (view->cached_free_with[x] != x && b < view->cached_free_shared[x]) x = view->cached_free_with[x];
      while (view->cached_free_with[y] != y && b < view->cached_free_shared[y]) y = view->cached_free_with[y];
      taken = x == y;
    }
    count += !taken;
  }
  return count;
}

void check_plan(const mortise_schedule_view* view, const mortise_schedule_plan* plan) {
  const int32_t size = view->num_seqs;
  CHECK(plan->num_scheduled >= 1 && plan->num_scheduled <= size);
  CHECK(plan->num_preempted >= 0 && plan->num_preempted <= size);
  CHECK(plan->num_pins == 0);
  bool seen[MAX_LIVE] = {false}, started[MAX_LIVE] = {false};
  int64_t rows = 0, blocks = view->num_free_blocks, num_running = 0;
  for (int32_t i = 0; i < size; ++i) num_running += view->states[i] == MORTISE_SEQ_RUNNING;
  for (int32_t k = 0; k < plan->num_preempted; ++k) {
    const int32_t i = plan->preempted[k];
    CHECK(i >= 0 && i < size && !seen[i] && view->states[i] == MORTISE_SEQ_RUNNING);
    seen[i] = true;
    --num_running;
  }
  blocks += view->blocks_freed(view->host_data, plan->preempted, plan->num_preempted);
  for (int32_t k = 0; k < plan->num_scheduled; ++k) {
    const int32_t i = plan->seqs[k], n = plan->num_new_tokens[k];
    CHECK(i >= 0 && i < size && !seen[i]);
    seen[i] = true;
    const bool running = view->states[i] == MORTISE_SEQ_RUNNING;
    const int32_t first = running ? view->num_computed[i] : view->num_cached[i];
    CHECK(n >= 1 && n <= view->num_tokens[i] - first);
    const int32_t granted = plan->max_drafts[i];
    CHECK(granted >= ((view->flags & MORTISE_VIEW_WHOLE_DRAFTS) != 0 ? view->lookahead[i] : 0));
    CHECK(granted <= view->lookahead[i]);
    const int32_t num_rows = n + (first + n == view->num_tokens[i] ? granted : 0);
    rows += num_rows;
    const int64_t needed = blocks_for(view, (int64_t)first + num_rows);
    if (running) {
      blocks -= needed > view->blocks_held[i] ? needed - view->blocks_held[i] : 0;
    } else {
      ++num_running;
      blocks -= needed;
      if (plan->num_preempted == 0) blocks += first / view->block_size - newly_taken(view, started, i);
      started[i] = true;
    }
  }
  CHECK(rows <= view->token_budget);
  CHECK(num_running <= view->seq_budget);
  CHECK(blocks >= 0);
}

/* --- the engine */

uint32_t sim_draw(simulation* sim, uint32_t below) {
  sim->random = sim->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(sim->random >> 33) % below;
}

static const mortise_scheduler_table* table_of(const simulation* sim) {
  return sim->component->table;
}

void sim_begin(simulation* sim, const mortise_component* component, int32_t ageing, uint64_t seed) {
  *sim = (simulation){.component = component, .host = make_host(), .ageing = ageing, .random = seed};
  const mortise_option_reader reader = make_reader(&sim->ageing);
  const mortise_create_args args = {.struct_size = sizeof args, .option_reader = &reader};
  mortise_error error = {.struct_size = sizeof error};
  CHECK(component->create(&sim->host.host, &args, &sim->scheduler, &error) == MORTISE_OK);
  sim->view.struct_size = sizeof sim->view;
}

static uint64_t num_known(const simulation* sim) {
  const mortise_sequences_table* sequences = sim->component->get_ext(sim->scheduler, MORTISE_EXT_SEQUENCES);
  return sequences->num_sequences(sim->scheduler);
}

void sim_end(simulation* sim) {
  CHECK(num_known(sim) == (uint64_t)sim->num_live);
  sim->component->destroy(sim->scheduler);
  CHECK(sim->host.num_allocations == 0);
}

static void tell(simulation* sim, int32_t kind, uint64_t id, int32_t num_tokens, int32_t max_new_tokens) {
  const uint64_t group = 0;
  const int32_t priority = 0;
  const int32_t* const tokens = NULL;
  const mortise_schedule_events events = {.struct_size = sizeof events,
                                          .num_events = 1,
                                          .kinds = &kind,
                                          .seq_ids = &id,
                                          .num_tokens = &num_tokens,
                                          .tokens = &tokens,
                                          .max_new_tokens = &max_new_tokens,
                                          .priorities = &priority,
                                          .groups = &group};
  mortise_error error = {.struct_size = sizeof error};
  CHECK(table_of(sim)->events(sim->scheduler, &events, &error) == MORTISE_OK);
}

uint64_t sim_add(simulation* sim, int32_t prompt, int32_t output, int32_t ends_after, int32_t priority) {
  CHECK(sim->num_live < MAX_LIVE);
  sim->live[sim->num_live++] = (sim_sequence){.id = ++sim->last_id,
                                              .length = prompt + output,
                                              .end = prompt + ends_after,
                                              .prompt = prompt,
                                              .num_tokens = prompt,
                                              .priority = priority};
  tell(sim, MORTISE_EVENT_ADDED, sim->last_id, prompt, output);
  return sim->last_id;
}

bool sim_is_live(const simulation* sim, uint64_t id) {
  for (int32_t i = 0; i < sim->num_live; ++i) {
    if (sim->live[i].id == id) return true;
  }
  return false;
}

/* The arrays behind a view and a plan. */
typedef struct arrays {
  uint64_t ids[MAX_LIVE], groups[MAX_LIVE];
  int32_t states[MAX_LIVE], num_tokens[MAX_LIVE], num_computed[MAX_LIVE], zeros[MAX_LIVE], held[MAX_LIVE],
      lookahead[MAX_LIVE], priorities[MAX_LIVE], self[MAX_LIVE];
  int32_t seqs[MAX_LIVE], num_new_tokens[MAX_LIVE], preempted[MAX_LIVE], max_drafts[MAX_LIVE];
} arrays;

static void fill_view(simulation* sim, arrays* a) {
  memset(a, 0, sizeof *a);
  for (int32_t i = 0; i < sim->num_live; ++i) {
    const sim_sequence* s = &sim->live[i];
    a->ids[i] = s->id;
    a->states[i] = s->running ? MORTISE_SEQ_RUNNING : MORTISE_SEQ_WAITING;
    a->num_tokens[i] = s->num_tokens;
    a->num_computed[i] = s->num_computed;
    a->held[i] = s->held;
    const int32_t left = s->end - s->num_tokens - 1;
    a->lookahead[i] = left < 0 ? 0 : left < sim->max_lookahead ? left : sim->max_lookahead;
    a->priorities[i] = s->priority;
    a->self[i] = i;
  }
  mortise_schedule_view* view = &sim->view;
  view->step_id = (uint64_t)sim->num_steps;
  view->num_seqs = sim->num_live;
  view->seq_ids = view->arrivals = a->ids;
  view->groups = a->groups;
  view->states = a->states;
  view->num_tokens = a->num_tokens;
  view->num_computed = a->num_computed;
  view->num_cached = view->num_cached_free_blocks = view->cached_free_shared = a->zeros;
  view->cached_free_with = a->self;
  view->blocks_held = view->blocks_freed_if_preempted = a->held;
  view->host_data = a->held;
  view->blocks_freed = sum_of_held;
  view->lookahead = a->lookahead;
  view->priorities = a->priorities;
}

static mortise_schedule_plan ask(simulation* sim, arrays* a) {
  memcpy(a->max_drafts, a->lookahead, sizeof a->max_drafts);
  mortise_schedule_plan plan = {.struct_size = sizeof plan,
                                .seqs = a->seqs,
                                .num_new_tokens = a->num_new_tokens,
                                .preempted = a->preempted,
                                .max_drafts = a->max_drafts};
  mortise_error error = {.struct_size = sizeof error};
  CHECK(table_of(sim)->plan(sim->scheduler, &sim->view, &plan, &error) == MORTISE_OK);
  return plan;
}

/* Later sequences of the same or a worse priority that are admitted before a sequence pass it. Checks the bound. */
static void count_passes(simulation* sim, const mortise_schedule_plan* plan) {
  bool scheduled[MAX_LIVE] = {false};
  for (int32_t k = 0; k < plan->num_scheduled; ++k) scheduled[plan->seqs[k]] = true;
  for (int32_t i = 0; i < sim->num_live; ++i) {
    sim_sequence* s = &sim->live[i];
    if (scheduled[i]) {
      s->passed_rows = 0;
      continue;
    }
    for (int32_t later = i + 1; later < sim->num_live; ++later) {
      const sim_sequence* other = &sim->live[later];
      if (scheduled[later] && !other->running && other->priority >= s->priority) s->passed_rows += other->length;
    }
    const int64_t most = (int64_t)MORTISE_MAX_PASSED_STEPS * sim->view.token_budget / sim->ageing;
    CHECK(s->passed_rows <= (sim->ageing - 1) * (s->length < most ? s->length : most));
    if (s->passed_rows > sim->most_passed_rows) sim->most_passed_rows = s->passed_rows;
  }
}

static void run(simulation* sim, sim_sequence* s, int32_t n, int32_t drafts) {
  s->running = true;
  const bool ends_known = s->num_computed + n == s->num_tokens;
  const int64_t blocks = blocks_for(&sim->view, (int64_t)s->num_computed + n + (ends_known ? drafts : 0));
  if (blocks > s->held) {
    sim->view.num_free_blocks -= (int32_t)blocks - s->held;
    s->held = (int32_t)blocks;
  }
  s->num_computed += n;
  if (!ends_known) return;
  const int32_t accepted = drafts == 0 ? 0 : (int32_t)sim_draw(sim, (uint32_t)drafts + 1);
  s->num_computed += accepted;
  s->num_tokens += accepted + 1;
}

static void release(simulation* sim, sim_sequence* s) {
  sim->view.num_free_blocks += s->held;
  s->held = s->num_computed = 0;
  s->running = false;
}

void sim_step(simulation* sim) {
  if (sim->num_live == 0) return;
  arrays a, again;
  fill_view(sim, &a);
  mortise_schedule_plan plan = ask(sim, &a);
  again = a;
  ask(sim, &a); /* a plan is a function of the view and the scheduler's state */
  CHECK(memcmp(&a, &again, sizeof a) == 0);
  check_plan(&sim->view, &plan);
  count_passes(sim, &plan);
  for (int32_t k = 0; k < plan.num_preempted; ++k) release(sim, &sim->live[plan.preempted[k]]);
  for (int32_t k = 0; k < plan.num_scheduled; ++k) {
    run(sim, &sim->live[plan.seqs[k]], plan.num_new_tokens[k], plan.max_drafts[plan.seqs[k]]);
  }
  sim->num_preempted += plan.num_preempted;
  ++sim->num_steps;
  int32_t left = 0;
  for (int32_t i = 0; i < sim->num_live; ++i) {
    if (sim->live[i].num_tokens < sim->live[i].end) {
      sim->live[left++] = sim->live[i];
      continue;
    }
    release(sim, &sim->live[i]);
    tell(sim, MORTISE_EVENT_ENDED, sim->live[i].id, 0, 0);
    ++sim->num_ended;
  }
  sim->num_live = left;
  CHECK(num_known(sim) == (uint64_t)left);
}
