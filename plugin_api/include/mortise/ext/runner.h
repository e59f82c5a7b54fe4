/* mortise/ext/runner.h: runs a draft model for a proposer. The host runs it with the pipeline's device and attention
 * plugins, and with a KV pool and prefix cache of its own. From the host's get_ext(MORTISE_EXT_RUNNER); NULL if the
 * host does not offer it.
 *
 * The caller tells a runner the tokens of each sequence. A step runs every token whose KV is missing. This covers the
 * bonus token, a sequence that lost its KV to others, and a proposer that was just swapped in. When a sequence's tokens
 * change, its KV is kept up to the first token that differs. */
#ifndef MORTISE_EXT_RUNNER_H
#define MORTISE_EXT_RUNNER_H

#include "mortise/model.h"

#define MORTISE_EXT_RUNNER "mortise.host.runner/1"

typedef struct mortise_runner mortise_runner;
typedef struct mortise_runner_table mortise_runner_table;

typedef struct mortise_runner_open_args {
  uint32_t struct_size;
  uint32_t flags;
  /* Checkpoint folder. The pipeline's model plugin runs it, or else the first installed one that supports it. Its
   * tokenizer must have the target's vocabulary. */
  mortise_string_view path;
  /* A JSON object, which the host checks; empty means {}.
   * "kv_memory": bytes, a text such as "512MiB", or "auto" (room for as many tokens as the target's KV cache holds).
   * "attention": an object with the options of the pipeline's attention that differ here. "dtype": what the model
   * computes in, as the option of that name of the model. "devices": the ranks of the pipeline that run the model,
   * counted from 0, as an array; several cut it (since 0.6). */
  mortise_string_view options;
  int32_t max_forks; /* how many forks of a sequence one pass should have room for; more forks take more passes */
  int32_t reserved;
} mortise_runner_open_args;

/* mortise_runner_tokens.flags: the tokens are drafts. They run like others, but no other sequence shares their KV. */
#define MORTISE_RUNNER_DRAFTS 1u

/* New tokens of sequences. Sequence i keeps its first begins[i] tokens; then come tokens[offsets[i]] ..
 * tokens[offsets[i + 1] - 1], and nothing after them. A sequence that the runner does not know has begins[i] = 0. */
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

/* Marks the id of a fork; the host's sequence ids do not have this bit. */
#define MORTISE_RUNNER_FORK_BIT (UINT64_C(1) << 63)

/* New sequences that branch off others, for draft trees. Fork i has the tokens of from_ids[i], except that the last one
 * is replaced by tokens[i]. It takes over the KV of the tokens before. */
typedef struct mortise_runner_forks {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_forks;
  int32_t reserved;
  const uint64_t* from_ids; /* [num_forks] sequences with at least one token */
  const uint64_t* to_ids;   /* [num_forks] unused ids with MORTISE_RUNNER_FORK_BIT */
  const int32_t* tokens;    /* [num_forks] */
} mortise_runner_forks;

/* Draws the next token of each sequence. The runner first runs the tokens whose KV is missing, in as few passes as
 * possible. It draws with the sequence's key as the target does (docs/numerics.md, "Sampling"), and appends the drawn
 * token. The next update of the sequence may replace it. */
typedef struct mortise_runner_step {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t num_choices;       /* tokens to draw per sequence; 0 means 1 */
  const uint64_t* seq_ids;   /* [num_seqs], no id twice */
  const uint64_t* keys;      /* [num_seqs] */
  const float* temperatures; /* [num_seqs] 0: arg max */
  const int32_t* top_ks;     /* [num_seqs] filters as in mortise_sample_args; NULL: off */
  const float* top_ps;       /* [num_seqs]; NULL: off */
  const float* min_ps;       /* [num_seqs]; NULL: off */
  /* out [num_seqs, num_choices] the drawn token, which is appended; then the tokens that would have been drawn if the
   * ones before them were not allowed. -1: nothing was drawn, because the sequence is longer than the model takes or
   * has a token that the model does not know, or the KV pool has no room for it in this step, or the target does not
   * have the drawn token. */
  int32_t* sampled;
  /* out [num_seqs, vocab_size of dims] the logits before temperature and filters, in host memory; NULL: not wanted.
   * Rows of sequences without a draw are not written. */
  float* logits;
} mortise_runner_step;

struct mortise_runner_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Opens a checkpoint and loads its weights, from the proposer's bind on. `runners` is this table, as get_ext returned
   * it. The caller closes the runner. The host allocates its KV memory before it activates the proposer.
   * FAILED_PRECONDITION if the checkpoint or an option does not fit, else the status of the part that failed.
   * [control] since 0.3 */
  mortise_status (*open)(const mortise_runner_table* runners, const mortise_runner_open_args* args,
                         mortise_runner** runner, mortise_error* error);

  /* Closes the runner and frees its memory; it must not be NULL. [control] since 0.3 */
  void (*close)(mortise_runner* runner);

  /* Returns the dimensions of the runner's model; they live until close. [any] since 0.3 */
  const mortise_model_dims* (*dims)(mortise_runner* runner);

  /* Changes the tokens of sequences; does no device work. INVALID_ARGUMENT, with nothing changed, if begins[i] is
   * larger than the number of tokens that the runner knows. [step & active] since 0.3 */
  mortise_status (*update)(mortise_runner* runner, const mortise_runner_tokens* tokens, mortise_error* error);

  /* Draws the next tokens and waits for them: see mortise_runner_step. INVALID_ARGUMENT if a sequence is given twice or
   * has no token. If a part of the runner fails, its status. [step & active] since 0.3 */
  mortise_status (*step)(mortise_runner* runner, const mortise_runner_step* step, mortise_error* error);

  /* Drops sequences and forks with their KV; ignores unknown ids. [step] since 0.3 */
  void (*end)(mortise_runner* runner, const uint64_t* seq_ids, int32_t num_seqs);

  /* Makes forks, which live until `end`. INVALID_ARGUMENT if an origin is unknown or has no token, or if a new id is in
   * use or lacks MORTISE_RUNNER_FORK_BIT. [step & active] since 0.3 */
  mortise_status (*fork)(mortise_runner* runner, const mortise_runner_forks* forks, mortise_error* error);
};

#endif
