/* examples/shortest_job/tests/shortest_job_test.c: drives the plugin through its entry, as the host does, without an
 * engine: shortest_job_test PLUGIN.so. Prints nothing if all is well. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "scene.h"
#include "simulation.h"

static const mortise_component* component;

/* --- views that are written by hand */

static void the_shortest_job_goes_first(void) {
  context = "the shortest job goes first";
  scene s = {.token_budget = 44,
             .seq_budget = 8,
             .num_free_blocks = 90,
             .num_rows = 3,
             .rows = {{W, 40, 0, 0}, {W, 30, 0, 0}, {W, 5, 0, 0}},
             .max_new_tokens = {10, 100, 5}};
  plan_scene(&s, component, 8);
  expect(s.tokens, 39, 0, 5); /* the second prompt is shorter than the first, but not the job */
  plan_scene(&s, component, 1);
  expect(s.tokens, 40, 4, 0); /* ageing 1 is first come, first served */
}

static void a_short_prompt_passes_the_chunks_of_a_long_one(void) {
  context = "a short prompt passes the chunks of a long one";
  scene s = {.token_budget = 64,
             .seq_budget = 8,
             .num_free_blocks = 90,
             .num_rows = 3,
             .rows = {{R, 600, 128, 8}, {W, 40, 0, 0}, {R, 33, 32, 2}},
             .max_new_tokens = {10, 10, 10}};
  plan_scene(&s, component, 8);
  expect(s.tokens, 23, 40, 1); /* a decode keeps its row */
}

static void priorities_go_before_lengths(void) {
  context = "priorities go before lengths";
  scene s = {.token_budget = 64,
             .seq_budget = 1,
             .num_free_blocks = 90,
             .num_rows = 2,
             .rows = {{W, 10, 0, 0, 0, 1}, {W, 60, 0, 0, 0, 0}},
             .max_new_tokens = {1, 100}};
  plan_scene(&s, component, 8);
  expect(s.tokens, 0, 60, 0);
  s.rows[0] = (row){
      .state = R, .num_tokens = 10, .first = 9, .blocks = 1, .priority = 1}; /* takes the only place: it gives it up */
  plan_scene(&s, component, 8);
  expect(s.tokens, 0, 60, 0);
  expect(s.preempted, 1, 0, 0);
  s.rows[0].priority = 0;
  plan_scene(&s, component, 8);
  expect(s.tokens, 1, 0, 0);
}

static void nobody_is_preempted_if_it_were_in_vain(void) {
  context = "nobody is preempted if it were in vain";
  scene s = {.token_budget = 64,
             .seq_budget = 8,
             .num_free_blocks = 1,
             .num_rows = 3,
             .rows = {{R, 32, 31, 2, 0, 1}, {W, 60, 0, 0, 0, 0}, {R, 17, 16, 1, 0, 0}},
             .max_new_tokens = {9, 9, 9}};
  plan_scene(&s, component, 8); /* 4 blocks and a reserve; there would be 1 + 2 */
  expect(s.preempted, 0, 0, 0);
  expect(s.tokens, 1, 0, 1);
}

static void a_sequence_that_does_not_fit_holds_back_later_ones_only(void) {
  context = "a sequence that does not fit holds back later ones only";
  scene s = {.token_budget = 64,
             .seq_budget = 8,
             .num_free_blocks = 3,
             .num_rows = 3,
             .rows = {{W, 20, 0, 0}, {W, 60, 0, 0}, {W, 20, 0, 0}},
             .max_new_tokens = {90, 1, 80}};
  plan_scene(&s, component, 8);
  expect(s.tokens, 20, 0, 0);
}

static void a_decode_takes_blocks_of_the_longest_job(void) {
  context = "a decode takes blocks of the longest job";
  scene s = {.token_budget = 64,
             .seq_budget = 8,
             .num_free_blocks = 0,
             .num_rows = 3,
             .rows = {{R, 33, 32, 2}, {R, 20, 19, 2}, {R, 49, 48, 3}},
             .max_new_tokens = {50, 500, 5}};
  plan_scene(&s, component, 8);
  expect(s.preempted, 0, 1, 0);
  expect(s.tokens, 1, 0, 1);
}

static void the_last_one_keeps_its_blocks_and_waits(void) {
  context = "the last one keeps its blocks and waits";
  scene s = {.token_budget = 64,
             .seq_budget = 8,
             .num_free_blocks = 0,
             .num_rows = 2,
             .rows = {{R, 20, 19, 2}, {R, 33, 32, 2}},
             .max_new_tokens = {5, 500}};
  plan_scene(&s, component, 8);
  expect(s.preempted, 0, 0, 0);
  expect(s.tokens, 1, 0, 0);
}

static void drafts_get_what_is_left(void) {
  context = "drafts get what is left";
  scene s = {.token_budget = 30,
             .seq_budget = 8,
             .num_free_blocks = 90,
             .num_rows = 3,
             .rows = {{R, 17, 16, 2, 4}, {R, 33, 32, 3, 4}, {W, 24, 0, 0, 4}},
             .max_new_tokens = {9, 8, 99}};
  plan_scene(&s, component, 8);
  expect(s.tokens, 1, 1, 24);
  expect(s.drafts, 4, 0, 0); /* of 4 rows: the first has less to do, in the order of keys */
  s = (scene){.token_budget = 30,
              .seq_budget = 8,
              .num_free_blocks = 0,
              .num_rows = 1,
              .rows = {{R, 30, 29, 2, 4}},
              .max_new_tokens = {9}};
  plan_scene(&s, component, 8);
  expect(s.drafts, 2, 0, 0); /* slots 30 and 31 are the last of two blocks */
}

static void whole_drafts_are_not_cut(void) {
  context = "whole drafts are not cut";
  scene s = {.token_budget = 10,
             .seq_budget = 8,
             .num_free_blocks = 90,
             .num_rows = 3,
             .flags = MORTISE_VIEW_WHOLE_DRAFTS,
             .rows = {{R, 17, 16, 2, 4}, {R, 33, 32, 3, 4}, {W, 5, 0, 0, 4}},
             .max_new_tokens = {9, 8, 99}};
  plan_scene(&s, component, 8);
  expect(s.tokens, 1, 1, 0);
  s.token_budget = 13;
  plan_scene(&s, component, 8);
  expect(s.tokens, 1, 1, 3);
  s.token_budget = 16; /* all 5 would verify 4 drafts */
  plan_scene(&s, component, 8);
  expect(s.tokens, 1, 1, 4);
}

static void cached_blocks_that_several_start_with_are_charged_once(void) {
  context = "cached blocks that several start with are charged once";
  scene s = {.token_budget = 64,
             .seq_budget = 8,
             .num_free_blocks = 8,
             .num_rows = 2,
             .rows = {{W, 70, 64, 4}, {W, 70, 64, 4, 0, 0, 0, 4}},
             .max_new_tokens = {9, 9}};
  plan_scene(&s, component, 8); /* 4 shared, one of its own each, one in reserve: 7 */
  expect(s.tokens, 6, 6, 0);
  s.rows[1].cached_shared = 2;
  plan_scene(&s, component, 8); /* two more */
  expect(s.tokens, 6, 0, 0);
}

static void a_plan_without_room_for_anybody_is_empty(void) {
  context = "a plan without room for anybody is empty";
  scene s = {.token_budget = 64,
             .seq_budget = 8,
             .num_free_blocks = 0,
             .num_rows = 1,
             .rows = {{W, 70, 0, 0}},
             .max_new_tokens = {9}};
  plan_scene(&s, component, 8);
  expect(s.tokens, 0, 0, 0);
}

/* --- loads */

/* Short jobs arrive faster than they can run, for ever; then a long one. Returns the step in which it starts. */
static int64_t adversarial_load(int32_t ageing, int32_t prompt, int32_t output, int64_t* passed_rows) {
  simulation sim;
  sim_begin(&sim, component, ageing, 7);
  sim.view.block_size = 16;
  sim.view.token_budget = 64;
  sim.view.seq_budget = 8;
  sim.view.num_blocks = sim.view.num_free_blocks = 400;
  for (int32_t i = 0; i < 32; ++i) sim_add(&sim, 20, 4, 4, 0);
  const uint64_t victim = sim_add(&sim, prompt, output, output, 0);
  while (sim_is_live(&sim, victim)) {
    const sim_sequence* s = sim.live;
    while (s->id != victim) ++s;
    if (s->running) break;
    /* A queue of 32: whenever a short job ends, the next one is there. */
    while (sim.num_live < 33) sim_add(&sim, 20, 4, 4, 0);
    sim_step(&sim);
    CHECK(sim.num_steps < 100000);
  }
  const int64_t started = sim.num_steps;
  *passed_rows = sim.most_passed_rows;
  while (sim.num_live > 0) sim_step(&sim);
  sim_end(&sim);
  return started;
}

static void a_stream_of_short_jobs_passes_a_long_one_no_more_than_the_bound(void) {
  static const int32_t ageings[] = {1, 2, 8, 64};
  for (int k = 0; k < 4; ++k) {
    static char text[64];
    snprintf(text, sizeof text, "a stream of short jobs, ageing %d", (int)ageings[k]);
    context = text;
    const int64_t length = 400 + 100, patience = MORTISE_MAX_PASSED_STEPS * 64 / ageings[k];
    const int64_t most = (ageings[k] - 1) * (length < patience ? length : patience);
    int64_t passed = 0;
    adversarial_load(ageings[k], 400, 100, &passed); /* sim_step() checks the bound in every step */
    CHECK(passed <= most);
    CHECK(ageings[k] == 1 || passed > most * 3 / 4); /* the load is one that would starve it: the bound is what holds */
  }
}

static void a_job_that_is_longer_than_the_hosts_patience_starts_in_time(void) {
  context = "a very long job, and an ageing that would pass it beyond the host's bound";
  int64_t passed = 0;
  adversarial_load(64, 5000, 1000, &passed); /* 63 * 6000 rows; the host allows 256 * 64 */
  CHECK(passed <= MORTISE_MAX_PASSED_STEPS * 64 && passed > MORTISE_MAX_PASSED_STEPS * 64 / 2);
}

/* Sequences that outgrow the pool together preempt each other: all must end, with little work done twice. */
static void preemption_comes_to_an_end(void) {
  context = "preemption comes to an end";
  simulation sim;
  sim_begin(&sim, component, 8, 3);
  sim.view.block_size = 16;
  sim.view.token_budget = 64;
  sim.view.seq_budget = 8;
  sim.view.num_blocks = sim.view.num_free_blocks = 20;
  for (int32_t i = 0; i < 8; ++i) sim_add(&sim, 20 + i, 290, 290, 0); /* 20 blocks each at its end */
  while (sim.num_live > 0) {
    sim_step(&sim);
    CHECK(sim.num_steps < 8 * 310);
  }
  CHECK(sim.num_preempted > 0 && sim.num_preempted < 8 * 20);
  sim_end(&sim);
}

static int64_t random_load(uint64_t seed) {
  static char text[64];
  snprintf(text, sizeof text, "random load, seed %llu", (unsigned long long)seed);
  context = text;
  static const int32_t ageings[] = {1, 3, 8, 100};
  simulation sim;
  sim_begin(&sim, component, ageings[seed % 4], seed);
  sim.view.block_size = seed % 3 == 0 ? 4 : 16;
  sim.view.token_budget = seed % 5 == 0 ? 7 : 64;
  sim.view.seq_budget = seed % 7 == 0 ? 2 : 8;
  sim.view.num_blocks = sim.view.num_free_blocks = 16 + (int32_t)sim_draw(&sim, 40);
  sim.max_lookahead = seed % 2 == 0 ? 0 : 5;
  if (seed % 4 == 3) sim.view.flags = MORTISE_VIEW_WHOLE_DRAFTS;
  const uint32_t most = (uint32_t)(sim.view.num_blocks - 1) * (uint32_t)sim.view.block_size / 2;
  const uint32_t num_priorities = seed % 6 == 0 ? 3 : 1;
  for (int32_t step = 0; step < 1500; ++step) {
    while (sim.num_live < 24 && sim_draw(&sim, 6) == 0) {
      const int32_t output = 1 + (int32_t)sim_draw(&sim, most);
      sim_add(&sim, 1 + (int32_t)sim_draw(&sim, sim_draw(&sim, 2) ? most : 20), output,
              1 + (int32_t)sim_draw(&sim, (uint32_t)output), (int32_t)sim_draw(&sim, num_priorities));
    }
    sim_step(&sim);
  }
  while (sim.num_live > 0) {
    sim_step(&sim);
    CHECK(sim.num_steps < 100000);
  }
  CHECK(sim.view.num_free_blocks == sim.view.num_blocks);
  CHECK(sim.num_ended == (int64_t)sim.last_id);
  const int64_t num_preempted = sim.num_preempted;
  sim_end(&sim);
  return num_preempted;
}

static void memory_that_is_missing_costs_a_plan_and_no_more(void) {
  context = "memory that is missing costs a plan and no more";
  simulation sim;
  sim_begin(&sim, component, 8, 1);
  sim.view.block_size = 16;
  sim.view.token_budget = 64;
  sim.view.seq_budget = 8;
  sim.view.num_blocks = sim.view.num_free_blocks = 50;
  sim.host.refuses = true;
  const mortise_scheduler_table* table = component->table;
  mortise_error error = {.struct_size = sizeof error};
  mortise_schedule_plan plan = {.struct_size = sizeof plan};
  mortise_schedule_view view = sim.view;
  view.num_seqs = 1;
  CHECK(table->plan(sim.scheduler, &view, &plan, &error) == MORTISE_RESOURCE_EXHAUSTED);
  CHECK(strcmp(error.message, "no memory for the plan; free some") == 0);
  sim_add(&sim, 20, 9, 9, 0); /* goes without a job */
  sim.host.refuses = false;
  sim_add(&sim, 20, 5, 5, 0);
  sim.live[0] = sim.live[1]; /* the next step's count of jobs is that of the live ones */
  sim.num_live = 1;
  while (sim.num_live > 0) sim_step(&sim);
  sim_end(&sim);
  test_host poor = make_host();
  poor.refuses = true;
  int32_t ageing = 8;
  const mortise_option_reader reader = make_reader(&ageing);
  const mortise_create_args args = {.struct_size = sizeof args, .option_reader = &reader};
  void* instance = &sim;
  CHECK(component->create(&poor.host, &args, &instance, &error) == MORTISE_RESOURCE_EXHAUSTED && instance == NULL);
}

int main(int count, char** arguments) {
  if (count != 2) {
    fprintf(stderr, "shortest_job_test PLUGIN.so\n");
    return 2;
  }
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const mortise_module* (*entry)(const mortise_entry_args*);
  *(void**)&entry = dlsym(library, MORTISE_PLUGIN_ENTRY_NAME);
  context = "the entry";
  const mortise_entry_args args = {.struct_size = sizeof args, .abi_minor = MORTISE_ABI_MINOR, .host_name = "test"};
  CHECK(entry != NULL && entry(&args) == entry(&args) && entry(&args)->num_components == 1);
  CHECK(entry(&args)->abi_minor == MORTISE_ABI_MINOR);
  component = entry(&args)->components[0];
  CHECK(component->kind == MORTISE_KIND_SCHEDULER && strcmp(component->name, "shortest_job") == 0);

  the_shortest_job_goes_first();
  a_short_prompt_passes_the_chunks_of_a_long_one();
  priorities_go_before_lengths();
  nobody_is_preempted_if_it_were_in_vain();
  a_sequence_that_does_not_fit_holds_back_later_ones_only();
  a_decode_takes_blocks_of_the_longest_job();
  the_last_one_keeps_its_blocks_and_waits();
  drafts_get_what_is_left();
  whole_drafts_are_not_cut();
  cached_blocks_that_several_start_with_are_charged_once();
  a_plan_without_room_for_anybody_is_empty();
  a_stream_of_short_jobs_passes_a_long_one_no_more_than_the_bound();
  a_job_that_is_longer_than_the_hosts_patience_starts_in_time();
  preemption_comes_to_an_end();
  int64_t num_preempted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) num_preempted += random_load(seed);
  CHECK(num_preempted > 100); /* the loads are tight enough to test preemption */
  memory_that_is_missing_costs_a_plan_and_no_more();
  return 0;
}
