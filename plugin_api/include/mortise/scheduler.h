/* mortise/scheduler.h: a scheduler decides which sequences run in a step, and how many tokens each of them runs.
 *
 * The host owns requests, KV blocks and tokens. A scheduler owns a policy and its queues, nothing else, so the host can
 * replace it between any two steps. `plan` is a pure function of the view and of the events so far: called twice with
 * the same view, it gives the same plan. So whatever it remembers must come from events or from views (step_id tells
 * whether a view is new), never from its own earlier plans: the host may drop a plan.
 *
 * Options. The host reads max_num_seqs and max_batched_tokens from a scheduler's options: they become the view's
 * budgets and the sizes of activate for all parts. If a scheduler's schema lacks one of them, the host uses the
 * default of the built-in schedulers (64 and 2048).
 *
 * Blocks. A plan must not take more blocks than are free. mortise/plan_blocks.h counts blocks as the host does:
 *   free blocks         num_free_blocks, plus blocks_freed of all preempted sequences
 *   a running sequence  takes max(0, ceil(end / block_size) - blocks_held)
 *   a waiting sequence  takes ceil(end / block_size) - num_cached / block_size (rounded down), plus its
 *                       num_cached_free_blocks, except those that another sequence admitted by this plan has
 *                       taken already; in a plan that preempts, it takes ceil(end / block_size)
 * where `end` is the number of the sequence's tokens with KV after the run: num_computed or num_cached, plus
 * num_new_tokens, plus the granted drafts if the run ends the known tokens.
 *
 * The host checks every plan. A plan that breaks a bound of this header is dropped: the host plans that step itself,
 * first come, first served, and counts and logs the breach with the plugin's name. After MORTISE_INTERNAL the host
 * plans all further steps this way.
 *
 * No sequence may starve. For each priority the host watches the oldest sequence that a plan leaves out, and counts
 * from the step in which that sequence last ran. Another sequence overtakes it if it arrived later, has the same or a
 * worse priority, and was admitted since that step. The sequence starves if at least one other sequence overtook it,
 * and if one of these is true:
 *  - Idle room: after that, MORTISE_MAX_IDLE_PLANS plans left the sequence out although they had room for it. That
 *    is, the plan uses fewer rows than token_budget, fewer than seq_budget sequences run after it (or the sequence
 *    itself is running), and enough blocks stay free for the sequence to run to its end.
 *  - Overtaking: the sequences that overtook it may run more than MORTISE_MAX_PASSED_STEPS * token_budget rows until
 *    they end.
 * Waiting for older sequences, for better priorities, for free blocks or for one of the seq_budget places is not
 * starvation.
 * The host reports a starving sequence. Until that sequence ends, the host plans every step itself: the starving
 * sequence first, then first come, first served. */
#ifndef MORTISE_SCHEDULER_H
#define MORTISE_SCHEDULER_H

#include "mortise/plugin.h"

typedef struct mortise_scheduler mortise_scheduler;

enum {
  MORTISE_SEQ_WAITING = 0, /* holds no blocks: it is new or was preempted */
  MORTISE_SEQ_RUNNING = 1  /* holds blocks */
};

#define MORTISE_MAX_IDLE_PLANS 1024
#define MORTISE_MAX_PASSED_STEPS 256

/* mortise_schedule_view.flags: a plan that runs a sequence to the end of its known tokens must grant all of its
 * lookahead. Set with rejection sampling, where the number of drafts changes which tokens come out. */
enum { MORTISE_VIEW_WHOLE_DRAFTS = 1 };

/* The live sequences, oldest first. All arrays have length [num_seqs] and are borrowed for the call. When a waiting
 * sequence needs a prefix that another sequence of the same or a better priority is about to compute, the view omits
 * the waiting sequence until that prefix is in the cache. */
typedef struct mortise_schedule_view {
  uint32_t struct_size;
  uint32_t flags; /* MORTISE_VIEW_* */
  uint64_t step_id;
  int32_t num_seqs;
  int32_t block_size;      /* tokens per KV block */
  int32_t token_budget;    /* max_batched_tokens: the most rows in one step */
  int32_t seq_budget;      /* max_num_seqs: the most sequences that may run at a time */
  int32_t num_free_blocks; /* available without preempting; includes cached blocks that no sequence holds */
  int32_t num_blocks;      /* in the whole pool */
  const uint64_t* seq_ids;
  const int32_t* states;       /* MORTISE_SEQ_* */
  const int32_t* num_tokens;   /* known tokens: the prompt and what was generated */
  const int32_t* num_computed; /* leading tokens whose KV is computed; 0 for a waiting sequence */
  /* Waiting: leading tokens found in the prefix cache; the sequence runs from there on. It shares their full blocks. If
   * they end inside a block, the sequence gets a copy of that block, which costs one extra block. Running: 0. */
  const int32_t* num_cached;
  /* Waiting: how many of its full cached blocks no other sequence holds. num_free_blocks counts these blocks as free,
   * so admitting the sequence takes them from there. This holds for plans that preempt nobody. In a plan that preempts,
   * an admitted sequence takes all of its cached blocks from the free ones: a preempted sequence may be their holder,
   * and its blocks are already counted as free. Running: 0. */
  const int32_t* num_cached_free_blocks;
  const int32_t* blocks_held;
  /* Blocks that this sequence alone holds. Sequences that share blocks free more when they are preempted together: see
   * blocks_freed. */
  const int32_t* blocks_freed_if_preempted;
  /* The most draft tokens this step may verify for the sequence; each one takes a row and a KV slot. If the request
   * brought a predicted output, this may be up to token_budget - 1, even while the prompt is still being computed.
   * Drafts are of use only in a run that ends the known tokens. */
  const int32_t* lookahead;
  const int32_t* priorities; /* a lower number runs first */
  const uint64_t* arrivals;  /* grows with each request */
  const uint64_t* groups;    /* the user's hint that requests of one group are better run together; 0: no group */
  /* Waiting: which earlier sequence shares most of this sequence's num_cached_free_blocks, as an index into the view.
   * Its own index if no earlier sequence shares any. Running: its own index. Since 0.4 */
  const int32_t* cached_free_with;
  /* Waiting: how many of its num_cached_free_blocks it shares with the sequence cached_free_with; these come first in
   * both block tables. If a plan that preempts nobody admits several sequences that share a block, the plan is charged
   * for the block once; mortise/plan_blocks.h counts this. Running: 0. Since 0.4 */
  const int32_t* cached_free_shared;
  /* Returns how many blocks become free if the running sequences seqs[0 .. num_seqs - 1] (indices into the view, each
   * at most once) are all preempted: the blocks that no other sequence holds. Pass the view's host_data. Its time grows
   * with the number of their blocks. [step] since 0.6 */
  int32_t (*blocks_freed)(const void* host_data, const int32_t* seqs, int32_t num_seqs);
  const void* host_data; /* for blocks_freed. Since 0.6 */
} mortise_schedule_view;

/* A plan. The host allocates the arrays, [num_seqs of the view] each; the scheduler fills them and sets the counts. */
typedef struct mortise_schedule_plan {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_scheduled; /* entries of seqs and num_new_tokens */
  int32_t num_preempted; /* entries of preempted */
  int32_t num_pins;      /* entries of pins and pin_tokens */
  int32_t reserved;
  int32_t* seqs; /* sequences to run: indices into the view, each at most once */
  /* Known tokens to run for seqs[i]: 1 .. num_tokens - max(num_computed, num_cached). A run up to the last known token
   * also verifies the drafts that the plan grants. */
  int32_t* num_new_tokens;
  int32_t* preempted; /* running sequences that give up their blocks: indices into the view; none is also in seqs */
  /* Prefixes to keep in the cache: of sequence pins[i] (an index into the view) the first pin_tokens[i] tokens, as far
   * as they are cached, in whole blocks. pin_tokens[i] = 0 drops the pin. A pin also ends with its sequence, or when
   * another sequence could not run otherwise. */
  int32_t* pins;
  int32_t* pin_tokens;
  /* Draft tokens granted, 0 .. lookahead; filled with lookahead before the call. Indexed like the VIEW, not like seqs.
   * The host reads it for sequences that run up to their last known token. Since 0.3 */
  int32_t* max_drafts;
} mortise_schedule_plan;

enum {
  MORTISE_EVENT_ADDED = 1,
  MORTISE_EVENT_ENDED = 2,
  MORTISE_EVENT_PREFIX_RESIDENT = 3, /* a pin took effect */
  MORTISE_EVENT_PREFIX_EVICTED = 4   /* the host had to end a pin */
};

/* Events, in the order in which they happened. All arrays have length [num_events] and are borrowed for the call; so
 * are the token arrays. Sequences are ADDED in order of arrival, including sequences that views omit. ADDED comes
 * before the first plan whose view may contain the sequence, and before its ENDED. A scheduler that is swapped in first
 * receives ADDED for every live sequence. */
typedef struct mortise_schedule_events {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_events;
  int32_t reserved;
  const int32_t* kinds; /* MORTISE_EVENT_* */
  const uint64_t* seq_ids;
  /* ADDED: tokens of the sequence. PREFIX_RESIDENT: leading tokens that the pin keeps. Else 0. */
  const int32_t* num_tokens;
  /* The next four arrays describe ADDED sequences; for other events they hold NULL or 0. Since 0.4 */
  const int32_t* const* tokens;  /* [num_tokens] each: the sequence's tokens */
  const int32_t* max_new_tokens; /* the most tokens it may still generate */
  const int32_t* priorities;     /* as in the view */
  const uint64_t* groups;        /* as in the view */
} mortise_schedule_events;

typedef struct mortise_scheduler_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Tells the scheduler what happened since the last plan. Not called when nothing happened. If it fails, the host does
   * not repeat the events: the scheduler is never told that these sequences were added, or that they ended.
   * [step & active] since 0.1 */
  mortise_status (*events)(mortise_scheduler* scheduler, const mortise_schedule_events* events, mortise_error* error);

  /* Fills `plan` for one step. An empty plan is valid only if the oldest sequence would have no room even with all
   * others preempted; the host then ends pins to make room. On a failure or a broken bound the host plans this step
   * itself. [step & active] since 0.1 */
  mortise_status (*plan)(mortise_scheduler* scheduler, const mortise_schedule_view* view, mortise_schedule_plan* plan,
                         mortise_error* error);
} mortise_scheduler_table;

#endif
