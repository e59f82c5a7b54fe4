/* examples/shortest_job/tests/simulation.h: an engine without a model, for tests of a scheduler: sequences that arrive,
 * run, are preempted and end, and a count of KV blocks. It checks each plan against the rules of mortise/scheduler.h
 * and against the bound of shortest_job.c, and ends the program with a message if one is broken. There is no prefix
 * cache: views that have cached blocks are written by hand in shortest_job_test.c. */
#ifndef SHORTEST_JOB_SIMULATION_H
#define SHORTEST_JOB_SIMULATION_H

#include <stdbool.h>

#include "mortise/plugin.h"
#include "mortise/scheduler.h"

enum { MAX_LIVE = 256 }; /* sequences */

/* Ends the program unless `holds`. `context` says which test and seed run. */
extern const char* context;
void check(bool holds, const char* what, const char* file, int line);
#define CHECK(condition) check(condition, #condition, __FILE__, __LINE__)

/* A host that counts the memory that instances hold. `refuses`: it has no memory to give. */
typedef struct test_host {
  mortise_host host;
  int64_t num_allocations;
  bool refuses;
} test_host;
test_host make_host(void);
mortise_option_reader make_reader(int32_t* ageing); /* has the option `ageing` alone; borrows it */
int32_t sum_of_held(const void* held, const int32_t* seqs, int32_t num_seqs); /* a view's blocks_freed */

typedef struct sim_sequence {
  uint64_t id;
  int32_t length, end; /* tokens: with all that it may generate; at its end, which may come earlier */
  int32_t prompt, num_tokens, num_computed, held, priority;
  bool running;
  int64_t passed_rows; /* rows of later ones that were admitted since it last ran */
} sim_sequence;

typedef struct simulation {
  const mortise_component* component;
  test_host host;
  void* scheduler;
  int32_t ageing;
  mortise_schedule_view view; /* budgets and flags are set by the test; the arrays are the simulation's */
  int32_t max_lookahead;
  uint64_t random;
  sim_sequence live[MAX_LIVE]; /* in order of arrival */
  int32_t num_live;
  uint64_t last_id;
  int64_t num_steps, num_preempted, num_ended, most_passed_rows;
} simulation;

/* Creates the scheduler. The caller sets view.block_size and the budgets, num_blocks and num_free_blocks. */
void sim_begin(simulation* sim, const mortise_component* component, int32_t ageing, uint64_t seed);
void sim_end(simulation* sim); /* destroys it, and checks that it freed its memory */
uint32_t sim_draw(simulation* sim, uint32_t below);

/* Adds a sequence of `prompt` tokens that may generate `output` and ends after `ends_after` of them. Returns its id. */
uint64_t sim_add(simulation* sim, int32_t prompt, int32_t output, int32_t ends_after, int32_t priority);
bool sim_is_live(const simulation* sim, uint64_t id);
void sim_step(simulation* sim); /* plans a step and runs it; nothing if no sequence is live */

/* Ends the program if a plan for the view breaks a rule. */
void check_plan(const mortise_schedule_view* view, const mortise_schedule_plan* plan);

#endif
