/* mortise/ext/runner.h: a second model for a proposer, run by the host with the pipeline's device and attention plugins
 * and a KV pool and prefix cache of its own. From the host's get_ext(MORTISE_EXT_RUNNER); NULL in a host that has none.
 *
 * A runner keeps the tokens of each sequence, as its caller tells them, and runs "those that it has not seen yet",
 * whatever they are: so the bonus token's KV is filled by construction, a sequence whose KV was taken for others is
 * computed anew, and a proposer that was swapped in catches up by itself. KV stays as far as tokens stay equal. */
#ifndef MORTISE_EXT_RUNNER_H
#define MORTISE_EXT_RUNNER_H

#include "mortise/model.h"

#define MORTISE_EXT_RUNNER "mortise.host.runner/1"

typedef struct mortise_runner mortise_runner;
typedef struct mortise_runner_table mortise_runner_table;

typedef struct mortise_runner_open_args {
  uint32_t struct_size;
  uint32_t flags;
  /* Checkpoint folder. It runs with the pipeline's model plugin, or with the first that is installed and takes it. Its
   * tokenizer must be the target's. */
  mortise_string_view path;
  /* A JSON object, checked by the host: "kv_memory" (bytes, a text such as "512MiB", or "auto": as many tokens as the
   * target's KV cache holds) and "attention" (an object: options of the pipeline's attention that are to be others
   * here). Empty: {}. */
  mortise_string_view options;
  int32_t max_forks; /* of one sequence that a step may run beside it; there may be more, in more passes */
  int32_t reserved;
} mortise_runner_open_args;

/* What sequences consist of from now on, ragged: of sequence i the first begins[i] tokens stay, then come
 * tokens[offsets[i]] .. tokens[offsets[i + 1] - 1], and nothing after them. A sequence that the runner does not know
 * begins at 0. With MORTISE_RUNNER_DRAFTS in `flags` the tokens are drafts, in the place of those that were drawn: they
 * are run like others, but what they fill is kept for no other sequence. */
#define MORTISE_RUNNER_DRAFTS 1u
typedef struct mortise_runner_tokens {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t reserved;
  const uint64_t* seq_ids; /* [num_seqs], no id twice */
  const int32_t* begins;   /* [num_seqs] */
  const int32_t* offsets;  /* [num_seqs + 1] */
  const int32_t* tokens;
} mortise_runner_tokens;

/* Sequences that begin like others: fork i has the tokens of from_ids[i] but for the last, in whose place it has
 * tokens[i], and takes over the KV of those before. For drafts that branch. */
#define MORTISE_RUNNER_FORK_BIT (UINT64_C(1) << 63) /* of an id: it is none of the host's */
typedef struct mortise_runner_forks {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_forks;
  int32_t reserved;
  const uint64_t* from_ids; /* [num_forks] of at least one token */
  const uint64_t* to_ids;   /* [num_forks] with MORTISE_RUNNER_FORK_BIT; not in use */
  const int32_t* tokens;    /* [num_forks] */
} mortise_runner_forks;

/* One more token for each of the sequences: runs what they have not run yet, in as few passes as it takes, draws the
 * next token with the sequence's key as the target does (docs/numerics.md, "Sampling"), and appends it until the next
 * update of the sequence says what comes there. */
typedef struct mortise_runner_step {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t num_choices;       /* 0 is 1 */
  const uint64_t* seq_ids;   /* [num_seqs], no id twice */
  const uint64_t* keys;      /* [num_seqs] */
  const float* temperatures; /* [num_seqs] */
  const int32_t* top_ks;     /* [num_seqs], or NULL: off */
  const float* top_ps;       /* [num_seqs], or NULL: off */
  const float* min_ps;       /* [num_seqs], or NULL: off */
  /* Out [num_seqs, num_choices]: first the draw, then what would have been drawn without those before it; only the
   * first is appended. -1 where nothing was drawn: the sequence is longer than the runner's model takes or has a token
   * that it does not know, its KV pool has no room beside the other sequences of this step, or what was drawn is no
   * token of the target. */
  int32_t* sampled;
  /* Out, host memory [num_seqs, vocab_size of dims], or NULL: the logits that the tokens were drawn from, before
   * temperature and filters; rows of -1 are not written. */
  float* logits;
} mortise_runner_step;

struct mortise_runner_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Opens the checkpoint and loads its weights. `runners` is this table, as get_ext gave it. From a proposer's bind on;
   * the host makes its memory before it activates the proposer. On failure *runner is NULL. [control] since 0.3 */
  mortise_status (*open)(const mortise_runner_table* runners, const mortise_runner_open_args* args,
                         mortise_runner** runner, mortise_error* error);
  void (*close)(mortise_runner* runner);                     /* [control] since 0.3 */
  const mortise_model_dims* (*dims)(mortise_runner* runner); /* lives until close. [any] since 0.3 */
  /* Touches no device. INVALID_ARGUMENT if a sequence begins beyond its end. [step] since 0.3 */
  mortise_status (*update)(mortise_runner* runner, const mortise_runner_tokens* tokens, mortise_error* error);
  /* INVALID_ARGUMENT if it is given a sequence twice or one that it has no token of. [step & active] since 0.3 */
  mortise_status (*step)(mortise_runner* runner, const mortise_runner_step* step, mortise_error* error);
  /* Drops sequences with their KV; unknown ids are ignored. [step] since 0.3 */
  void (*end)(mortise_runner* runner, const uint64_t* seq_ids, int32_t num_seqs);
  /* Forks live until end. INVALID_ARGUMENT for an unknown origin, or an id that is in use or a host's. [step & active]
   * since 0.3 */
  mortise_status (*fork)(mortise_runner* runner, const mortise_runner_forks* forks, mortise_error* error);
};

#endif
