/* examples/shortest_job/tests/scene.h: one view that a test writes by hand, and the plan for it. */
#ifndef SHORTEST_JOB_SCENE_H
#define SHORTEST_JOB_SCENE_H

#include "simulation.h"

typedef struct row {
  int32_t state, num_tokens, first; /* first: num_computed of a running one, num_cached of a waiting one */
  int32_t blocks;                   /* held by a running one; cached and free, of a waiting one */
  int32_t lookahead, priority;
  int32_t cached_with, cached_shared;
} row;

enum { W = MORTISE_SEQ_WAITING, R = MORTISE_SEQ_RUNNING, MAX_ROWS = 8 };

typedef struct scene {
  int32_t token_budget, seq_budget, num_free_blocks;
  uint32_t flags;
  row rows[MAX_ROWS]; /* a pool of 100 blocks of 16 tokens */
  int32_t num_rows;
  int32_t max_new_tokens[MAX_ROWS];
  /* The plan: tokens by sequence, 0: does not run; whether it is preempted; drafts. */
  int32_t tokens[MAX_ROWS], preempted[MAX_ROWS], drafts[MAX_ROWS];
} scene;

/* Tells the sequences to a new scheduler, asks it for a plan and checks that. */
void plan_scene(scene* s, const mortise_component* component, int32_t ageing);

/* Ends the program unless the first three numbers of a plan's array are these. */
void expect(const int32_t* found, int32_t a, int32_t b, int32_t c);

#endif
