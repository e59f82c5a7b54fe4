/* mortise/proposer.h: drafts tokens that the target then verifies. Verification belongs to the host: whatever a
 * proposer returns, the output is what the target alone would have made. A proposer that fails, or breaks a bound,
 * costs the step its drafts and nothing else; the breach is counted and logged with the plugin's name. After INTERNAL
 * it is never asked again: its requests go on without its drafts, and so do new ones that name it. */
#ifndef MORTISE_PROPOSER_H
#define MORTISE_PROPOSER_H

#include "mortise/model.h"

typedef struct mortise_proposer mortise_proposer;

typedef struct mortise_proposer_bind_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_model_dims* target; /* lives as long as the instance */
  uint64_t vocab_hash;              /* xxh64 of the target's tokenizer vocabulary: drafts are ids of this vocabulary */
} mortise_proposer_bind_args;

/* What happened to sequences in the last step, ragged. tokens: those committed in it, in order: the accepted drafts,
 * then the recovered or bonus token. The first time a sequence is seen (also after a swap, and when the observe before
 * failed) they are its whole history, first_positions[i] is 0, and whatever was kept of it is to be dropped. Sequences
 * whose requests this proposer may not draft for are not told of. num_seqs may be 0: then all there is to tell is who
 * ended. */
typedef struct mortise_observation {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t num_ended;
  const uint64_t* seq_ids;      /* [num_seqs] */
  const int32_t* token_offsets; /* [num_seqs + 1] into tokens */
  const int32_t* tokens;
  const int32_t*
      num_accepted; /* [num_seqs] drafts among them; the last token is a bonus when all drafts were accepted */
  /* The target's hidden rows (the head's input, behind the final norm) of the step, [rows, hidden_size] in device
   * memory, of the target's dtype; NULL unless the component has MORTISE_CAP_NEEDS_HIDDEN. They are there until observe
   * returns for what it queues on the device's default stream, and are the next step's afterwards: who wants a row
   * later copies it. hidden_rows says which are whose. */
  const mortise_tensor* hidden;
  const uint64_t* ended_ids; /* [num_ended] drop all that is kept of these */
  /* [num_seqs] position of the first of the tokens, which is how many the proposer was told of before. Since 0.3 */
  const int32_t* first_positions;
  /* [num_seqs], with `hidden`: the row from which the last of the sequence's tokens was drawn, that of the position
   * before it; -1: the step has none. Since 0.3 */
  const int32_t* hidden_rows;
} mortise_observation;

#define MORTISE_MAX_DRAFT_PATHS 64 /* of a tree: the option `branches` is not taken for more */
typedef struct mortise_proposal_args {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_seqs;
  int32_t max_draft;         /* row length of the outputs */
  const uint64_t* seq_ids;   /* [num_seqs] */
  const int32_t* max_drafts; /* [num_seqs] <= max_draft; 0: none wanted */
  /* The key and temperature that the target will sample with, and the position of the first draft: a proposer that
   * samples with them agrees with the target as often as the distributions allow. */
  const uint64_t* keys;      /* [num_seqs] */
  const float* temperatures; /* [num_seqs] */
  const int64_t* positions;  /* [num_seqs] */
  /* Out, the host's memory. */
  int32_t* tokens;     /* [num_seqs, max_draft] */
  int32_t* num_drafts; /* [num_seqs] 0 .. max_drafts[i]; 0 is a valid answer. With parents 0 .. max_draft */
  /* [num_seqs, max_draft] index of a draft's parent in its row, which comes before it; -1: none, it is a first draft.
   * max_drafts then bounds the drafts of a path, and max_draft is the largest of them times the option `branches` (1 to
   * MORTISE_MAX_DRAFT_PATHS). NULL: each draft follows the one before. For components with MORTISE_CAP_TREE whose
   * `branches` is above 1, unless the host verifies by rejection. */
  int32_t* parents;
  /* [num_seqs, max_draft, vocab_size of the target] row (i, j): the distribution that tokens[i, j] was drawn from, of
   * probabilities of at least 0 with a positive sum; the draft's own is above 0. Rows of drafts that are not there, and
   * of sequences with temperature 0, are not read. NULL unless the host verifies by rejection and the component has
   * MORTISE_CAP_DISTRIBUTION; a component without it has certain drafts: all of the probability lies on the token.
   * Since 0.3 */
  float* distributions;
  /* [num_seqs] the filters that the target will sample with, as in mortise_sample_args. Since 0.3 */
  const int32_t* top_ks;
  const float* top_ps;
  const float* min_ps;
} mortise_proposal_args;

typedef struct mortise_proposer_table {
  uint32_t struct_size;
  uint32_t flags;
  /* [control & created] since 0.1 */
  mortise_status (*bind)(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error* error);
  /* After each step, before propose. [step & active] since 0.1 */
  mortise_status (*observe)(mortise_proposer* proposer, const mortise_observation* observation, mortise_error* error);
  /* Before each step with sequences that decode. Must not block: every sequence of the step waits. [step & active]
   * since 0.1 */
  mortise_status (*propose)(mortise_proposer* proposer, const mortise_step* step, const mortise_proposal_args* args,
                            mortise_error* error);
  /* Drafts for a sequence and step, at most, at least 1; asked once, after bind. NULL: the option max_tokens says it. A
   * proposer with neither would never be asked for a draft, so it is refused. [control & created] since 0.3 */
  int32_t (*max_drafts)(mortise_proposer* proposer);
} mortise_proposer_table;

#endif
