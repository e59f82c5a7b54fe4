/* mortise/scheduler.h: decides which sequences run in a step and how many tokens each. It owns a policy and its queues;
 * requests, KV blocks and tokens belong to the host, so a scheduler can be replaced at any step. `plan` is a pure
 * function of the view and of the scheduler's own state. The host checks every plan; one that breaks a bound is
 * replaced for that step by first come, first served, counted and logged with the plugin's name. After INTERNAL the
 * host plans so in all further steps.
 *
 * Nobody starves. Of each priority the host watches the oldest sequence that a plan leaves out, and counts from when it
 * last ran. It starves
 *  - when younger sequences, of its priority or a worse one, have been started before it, and since then
 *    MORTISE_MAX_IDLE_PLANS plans have left it out although the rows, places and free blocks that they left unused had
 *    room for it and for all that it may still generate;
 *  - or when the younger ones that were started before it take more than MORTISE_MAX_PASSED_STEPS times token_budget
 *    rows (those that they may run until their ends).
 * The host reports a starving sequence, and plans first come, first served, with that sequence first, until it has
 * ended. Waiting behind older sequences or better priorities, and for blocks or places, is no starvation. */
#ifndef MORTISE_SCHEDULER_H
#define MORTISE_SCHEDULER_H

#include "mortise/plugin.h"

typedef struct mortise_scheduler mortise_scheduler;

enum {
  MORTISE_SEQ_WAITING = 0, /* holds no blocks: new, or preempted */
  MORTISE_SEQ_RUNNING = 1  /* holds blocks */
};

#define MORTISE_MAX_IDLE_PLANS 1024
#define MORTISE_MAX_PASSED_STEPS 256

/* mortise_schedule_view.flags. The draft tokens of a sequence must not be cut: a plan that runs a sequence to its known
 * end gives it all of its lookahead. (Rejection sampling: how many drafts there were decides which tokens come out.) */
enum { MORTISE_VIEW_WHOLE_DRAFTS = 1 };

/* All live sequences in order of arrival, struct of arrays, [num_seqs] each. Borrowed for the call. A waiting sequence
 * whose prefix another one of at least its priority is about to compute is left out until that prefix is in the cache.
 */
typedef struct mortise_schedule_view {
  uint32_t struct_size;
  uint32_t flags; /* MORTISE_VIEW_* */
  uint64_t step_id;
  int32_t num_seqs;
  int32_t block_size;
  int32_t token_budget;    /* max_batched_tokens: rows that one step may have */
  int32_t seq_budget;      /* max_num_seqs: sequences that may run at a time */
  int32_t num_free_blocks; /* blocks that can be had without preempting (cached ones that can be evicted included) */
  int32_t num_blocks;      /* of the pool */
  const uint64_t* seq_ids;
  const int32_t* states;       /* MORTISE_SEQ_* */
  const int32_t* num_tokens;   /* tokens known: prompt and generated. num_tokens - num_computed are to be run, */
  const int32_t* num_computed; /* tokens with KV; of a waiting sequence 0 */
  const int32_t* num_cached; /* waiting: leading tokens found in the prefix cache; it starts there. It gets their whole
                                blocks, and of one that they end within a copy, which is a block more that it takes */
  const int32_t*
      num_cached_free_blocks; /* waiting: those of its whole cached blocks that nobody holds, hence count as free. In a
                                 plan that preempts, all its cached blocks count as free ones that it takes: whoever
                                 holds them may be the one that is preempted, and has brought them in already */
  const int32_t* blocks_held;
  const int32_t* blocks_freed_if_preempted; /* by it alone: blocks that others hold too are not among them */
  const int32_t* lookahead;  /* draft tokens it may use this step; those granted need as many more rows and slots. A
                                request may bring tokens that it expects: then up to token_budget - 1, of a sequence
                                that is still in its prompt too, and of no use unless the run ends its known tokens */
  const int32_t* priorities; /* lower runs first */
  const uint64_t* arrivals;  /* grows with each request */
  const uint64_t* groups;    /* the user's hint: requests of one group are better run together; 0 none */
  /* Waiting: who would take the same of its num_cached_free_blocks. `cached_free_with` is the index of the earlier
   * sequence that shares most of them, or its own if none shares any; `cached_free_shared` says how many, the first
   * ones of both. A plan takes a block once for all that it starts (mortise/scheduler.hpp counts), unless it preempts:
   * then each pays for all its cached blocks, as above. Running: its own index, and 0. Since 0.4 */
  const int32_t* cached_free_with;
  const int32_t* cached_free_shared;
} mortise_schedule_view;

/* The plan. Arrays are the host's, [num_seqs of the view] each. */
typedef struct mortise_schedule_plan {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_scheduled;
  int32_t num_preempted;
  int32_t num_pins;
  int32_t reserved;
  int32_t* seqs;           /* indices into the view; each at most once */
  int32_t* num_new_tokens; /* 1 .. num_tokens - max(num_computed, num_cached); a run that ends the known tokens also
                              verifies the drafts that it is granted */
  int32_t* preempted;      /* indices of running sequences that give up their blocks; not in seqs */
  /* Prefixes to keep in the cache (pin) or to let go (tokens 0): the first pin_tokens[i] tokens of sequence pins[i], as
   * far as they are there, in whole blocks. A pin ends with its sequence, and when another sequence could not run
   * otherwise. */
  int32_t* pins;
  int32_t* pin_tokens;
  /* By index of the VIEW: draft tokens granted, 0 .. lookahead; holds lookahead when plan is called. Read for sequences
   * whose run ends their known tokens. Since 0.3 */
  int32_t* num_drafts;
} mortise_schedule_plan;

enum {
  MORTISE_EVENT_ADDED = 1,
  MORTISE_EVENT_ENDED = 2,
  MORTISE_EVENT_PREFIX_RESIDENT = 3, /* answers a pin */
  MORTISE_EVENT_PREFIX_EVICTED = 4   /* the host had to end a pin */
};

/* Events in the order in which they happened; all [num_events]. Sequences are ADDED in order of arrival, those that a
 * view leaves out too, each before the first plan whose view may show it and before its ENDED. A scheduler that is put
 * in while sequences live is told first of all of them. Borrowed for the call, the tokens included. */
typedef struct mortise_schedule_events {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_events;
  int32_t reserved;
  const int32_t* kinds; /* MORTISE_EVENT_* */
  const uint64_t* seq_ids;
  const int32_t* num_tokens; /* ADDED: tokens of the sequence; PREFIX_RESIDENT: how many of its leading tokens its pin
                                keeps; else 0 */
  /* What is known of a sequence when it is ADDED; else NULL or 0. Since 0.4 */
  const int32_t* const* tokens;  /* [num_tokens] each */
  const int32_t* max_new_tokens; /* that it may generate beyond those, at most; it may end sooner */
  const int32_t* priorities;     /* as in views */
  const uint64_t* groups;        /* as in views */
} mortise_schedule_events;

typedef struct mortise_scheduler_table {
  uint32_t struct_size;
  uint32_t flags;
  /* What happened since the last plan. [step & active] since 0.1 */
  mortise_status (*events)(mortise_scheduler* scheduler, const mortise_schedule_events* events, mortise_error* error);
  /* One step's plan. An empty plan is valid only when the oldest sequence has no room even if all others are preempted:
   * the host then ends pins for it. [step & active] since 0.1 */
  mortise_status (*plan)(mortise_scheduler* scheduler, const mortise_schedule_view* view, mortise_schedule_plan* plan,
                         mortise_error* error);
} mortise_scheduler_table;

#endif
