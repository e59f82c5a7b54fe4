/* mortise/proposer.h: a proposer drafts tokens, which the target model then verifies. The host verifies: whatever a
 * proposer returns, the output is what the target alone would produce. If a draft breaks a bound of this header, the
 * host drops that sequence's drafts for the step, and counts and logs the breach with the plugin's name. After INTERNAL
 * the proposer is never called again, and requests that name it run without its drafts. */
#ifndef MORTISE_PROPOSER_H
#define MORTISE_PROPOSER_H

#include "mortise/model.h"

typedef struct mortise_proposer mortise_proposer;

typedef struct mortise_proposer_bind_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_model_dims* target; /* the target model; lives until destroy */
  uint64_t vocab_hash;              /* xxh64 of the target's tokenizer vocabulary; drafts are token ids of it */
} mortise_proposer_bind_args;

/* What the last step did to the sequences that this proposer may draft for. `tokens` holds the tokens that the step
 * committed, in order: the accepted drafts, then the recovered or bonus token. If first_positions[i] is 0, they are the
 * sequence's whole history: drop all earlier state of it. This happens when the proposer first sees a sequence, also
 * after a swap, and after an observe that failed. With num_seqs 0 there are only ended sequences to report. */
typedef struct mortise_observation {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t num_ended;
  const uint64_t* seq_ids; /* [num_seqs] */
  /* [num_seqs + 1] sequence i has tokens[token_offsets[i]] .. tokens[token_offsets[i + 1] - 1] */
  const int32_t* token_offsets;
  const int32_t* tokens;
  const int32_t* num_accepted; /* [num_seqs] how many of the tokens are accepted drafts */
  /* The target's hidden rows of the step (the head's input, after the final norm), [rows, hidden_size], in device
   * memory, of the target's dtype. NULL unless the component has MORTISE_CAP_NEEDS_HIDDEN. Valid for work queued on the
   * default stream before observe returns. The next step overwrites them: copy what you need. */
  const mortise_tensor* hidden;
  const uint64_t* ended_ids; /* [num_ended] sequences that have ended: drop their state */
  /* [num_seqs] the position of the sequence's first token in `tokens`: how many tokens of the sequence the proposer
   * received in earlier calls. Since 0.3 */
  const int32_t* first_positions;
  /* [num_seqs], NULL if `hidden` is: the row that produced the sequence's last token; -1: this step has none. Since 0.3
   */
  const int32_t* hidden_rows;
} mortise_observation;

#define MORTISE_MAX_DRAFT_PATHS 64 /* the largest value of the option `branches` that the host uses */
typedef struct mortise_proposal_args {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t draft_stride; /* row length of the output arrays, in drafts */
  /* [num_seqs] sequences of which observe has reported every token so far. Give others no drafts: earlier hosts asked
   * for them too, after a swap. */
  const uint64_t* seq_ids;
  /* [num_seqs] the most drafts wanted, <= draft_stride; 0: none. With parents: the longest path. */
  const int32_t* max_drafts;
  /* How the target will sample: its key, its temperature, and the position of the first draft. A proposer that samples
   * with them agrees with the target as often as the two distributions allow. */
  const uint64_t* keys;      /* [num_seqs] */
  const float* temperatures; /* [num_seqs] 0: arg max */
  const int64_t* positions;  /* [num_seqs] */
  /* The following output arrays are the host's memory. */
  int32_t* tokens;     /* [num_seqs, draft_stride] */
  int32_t* num_drafts; /* [num_seqs] 0 .. max_drafts[i], 0 before the call. With parents: 0 .. draft_stride */
  /* [num_seqs, draft_stride] the parent of each draft: the index of an earlier draft of its row, or -1 for a first
   * draft. draft_stride is then the largest of max_drafts times the option `branches`, 2 to MORTISE_MAX_DRAFT_PATHS.
   * NULL: each draft follows the one before it. Given only to a component with MORTISE_CAP_TREE whose `branches` is
   * above 1, and not when the host verifies by rejection. */
  int32_t* parents;
  /* [num_seqs, draft_stride, vocab_size of the target] row (i, j): the distribution that tokens[i, j] was drawn from.
   * Entries are finite and at least 0, and the draft's own is above 0. Rows without a draft, and rows of sequences with
   * temperature 0, are not read. NULL unless the host verifies by rejection and the component has
   * MORTISE_CAP_DISTRIBUTION. The host gives drafts of other components probability 1. Since 0.3 */
  float* distributions;
  /* [num_seqs] the target's filters, as in mortise_sample_args. Since 0.3 */
  const int32_t* top_ks;
  const float* top_ps;
  const float* min_ps;
} mortise_proposal_args;

typedef struct mortise_proposer_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Gives the proposer its target, once, before activate. The runner extension may be opened from here on.
   * [control & created] since 0.1 */
  mortise_status (*bind)(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error* error);

  /* Reports a step, after it and before the next propose; not called when there is nothing to report. If it fails, the
   * next observe repeats the ended ids (up to 100000 of them), and the next report of each of these sequences has its
   * whole history. [step & active] since 0.1 */
  mortise_status (*observe)(mortise_proposer* proposer, const mortise_observation* observation, mortise_error* error);

  /* Writes drafts into `args`, before a step in which some sequence can take drafts. Must be quick: every sequence of
   * the step waits for it. On a failure the step runs without these drafts. [step & active] since 0.1 */
  mortise_status (*propose)(mortise_proposer* proposer, const mortise_step* step, const mortise_proposal_args* args,
                            mortise_error* error);

  /* Returns the most drafts per sequence and step, at least 1; called once, after bind. NULL: the option max_tokens
   * gives the number. The host refuses a proposer that has neither. [control & created] since 0.3 */
  int32_t (*max_drafts)(mortise_proposer* proposer);
} mortise_proposer_table;

#endif
