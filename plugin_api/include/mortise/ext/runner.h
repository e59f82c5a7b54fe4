/* mortise/ext/runner.h: a second model for a proposer, run by the host with the pipeline's device and attention and a
 * KV pool and prefix cache of its own. From the host's get_ext(MORTISE_EXT_RUNNER); NULL in a host that has none. A
 * runner is fed "the tokens that it has not seen yet", whatever they are: so the bonus token's KV is filled by
 * construction, and a proposer that was swapped in catches up by itself. */
#ifndef MORTISE_EXT_RUNNER_H
#define MORTISE_EXT_RUNNER_H

#include "mortise/model.h"

#define MORTISE_EXT_RUNNER "mortise.host.runner/1"

typedef struct mortise_runner mortise_runner;

typedef struct mortise_runner_open_args {
  uint32_t struct_size;
  uint32_t flags;
  mortise_string_view model; /* constructor of the model, e.g. "llama" */
  mortise_string_view path;  /* checkpoint folder */
  uint64_t kv_bytes;         /* of its own pool */
} mortise_runner_open_args;

/* One pass over a ragged batch: sequence i is first cut to keep[i] tokens, then fed tokens token_offsets[i] .. [i+1].
 * The last row of each sequence is sampled with its key. */
typedef struct mortise_runner_step {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t reserved;
  const uint64_t* seq_ids;
  const int32_t* keep;
  const int32_t* token_offsets;
  const int32_t* tokens;
  const uint64_t* keys;
  const float* temperatures;
  int32_t* sampled;     /* out [num_seqs] */
  float* probabilities; /* out [num_seqs] of `sampled` under the runner, or NULL */
} mortise_runner_step;

typedef struct mortise_runner_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Loads the model; on failure *runner is NULL. [control] since 0.1 */
  mortise_status (*open)(const mortise_host* host, const mortise_runner_open_args* args, mortise_runner** runner,
                         mortise_error* error);
  void (*close)(mortise_runner* runner);                     /* [control] since 0.1 */
  const mortise_model_dims* (*dims)(mortise_runner* runner); /* lives until close. [any] since 0.1 */
  int32_t (*num_seen)(mortise_runner* runner,
                      uint64_t seq_id); /* tokens of the sequence that have KV. [step] since 0.1 */
  mortise_status (*step)(mortise_runner* runner, const mortise_runner_step* step,
                         mortise_error* error);                                   /* [step] since 0.1 */
  void (*end)(mortise_runner* runner, const uint64_t* seq_ids, int32_t num_seqs); /* drops them. [step] since 0.1 */
} mortise_runner_table;

#endif
