/* mortise/batch.h: one step's work, a ragged batch. Prefill chunks, decodes, drafts to verify and completions to score
 * are all runs of rows (one row = one token of one sequence); some rows want logits.
 *
 * Every array exists twice: on the host, and (device_*) in the memory of the pipeline's device, uploaded by the host in
 * one packed buffer a step. Models and kernels read the device arrays only, so that a captured graph can be replayed.
 * On a device whose memory is the host's the two pointers may be equal. All are borrowed for the step.
 *
 * Runs: drafts may be runs of their own, one row each (an attention without MORTISE_CAP_MULTI_QUERY gets no others) or
 * the paths of a tree. Such runs bear their sequence's id, so ids may repeat, and their block tables share blocks. A
 * row may see what another run of the same batch writes: a layer appends all rows before it runs any.
 *
 * Padding: a host that replays captured graphs pads num_tokens and num_seqs up to a bucket. Padding rows have token 0,
 * position 0 and a slot of a reserved block, and belong to sequences with seq_len 0, whose block table is the reserved
 * block; num_tokens and num_seqs count them, num_real_* do not. Nothing reads what comes out of them.
 *
 * Buckets: with MORTISE_BATCH_BUCKET the batch's forward is, or may become, a captured graph. num_tokens, num_seqs,
 * max_blocks, max_query_len and max_seq_len are then the bucket's, upper bounds of what is in the arrays, and the
 * device arrays but for the logit rows lie at the same addresses each time: what is launched may depend on these
 * numbers and addresses alone. */
#ifndef MORTISE_BATCH_H
#define MORTISE_BATCH_H

#include "mortise/tensor.h"

enum { MORTISE_BATCH_BUCKET = 1 }; /* mortise_batch.flags */

typedef struct mortise_batch {
  uint32_t struct_size;
  uint32_t flags;   /* MORTISE_BATCH_* */
  uint64_t step_id; /* grows by one a step */
  int32_t num_seqs, num_tokens, num_logit_rows;
  int32_t num_real_seqs, num_real_tokens;
  int32_t block_size;    /* tokens of a KV block */
  int32_t max_blocks;    /* row length of block_table */
  int32_t max_query_len; /* the longest run of rows; of a bucket: no run is longer */
  int32_t max_seq_len;   /* the largest of seq_lens; of a bucket: none is larger */

  const uint64_t* seq_ids;     /* [num_seqs] the host's name of a sequence, never used again after it ended */
  const int32_t* token_ids;    /* [num_tokens] */
  const int32_t* positions;    /* [num_tokens] absolute, from 0; ascending by one within a sequence's run */
  const int32_t* cu_seqlens_q; /* [num_seqs + 1] rows of sequence i: cu_seqlens_q[i] .. cu_seqlens_q[i+1]; first 0, last
                                  num_tokens */
  const int32_t*
      seq_lens; /* [num_seqs] tokens with KV once this step's rows are written: last position of the run + 1 */
  const int32_t* block_table;  /* [num_seqs, max_blocks] token t of a sequence is in block_table[i][t / block_size] */
  const int64_t* slot_mapping; /* [num_tokens] block * block_size + offset: where a row's K and V go */
  const int32_t* logit_rows;   /* [num_logit_rows] rows that the head is wanted for, ascending */

  const int32_t* device_token_ids;
  const int32_t* device_positions;
  const int32_t* device_cu_seqlens_q;
  const int32_t* device_seq_lens;
  const int32_t* device_block_table;
  const int64_t* device_slot_mapping;
  const int32_t* device_logit_rows;

  /* Prefix groups: runs of rows whose sequences begin with the same blocks, as the host finds them in the block tables.
   * An attention backend may ignore them: they say what could be read once, never what a row sees, which position and
   * window decide as ever. Host arrays alone, of plan's time.
   *
   * group_shared_tokens[g] counts from token 0, whole blocks: so far the rows of block_table of all members are equal.
   * Every row of a member stands at position group_shared_tokens[g] - 1 or later, so it sees all of these tokens but
   * for those beyond its window. Members are runs of this batch, at least two, never padding, listed once and
   * ascending; runs that bear one id (drafts as one-row runs, the paths of a tree) are members like any other.
   *
   * Groups nest: group_parents[g] is the group within which g lies, -1 none. A parent comes before its children, lists
   * all members of theirs among its own, and shares fewer tokens than they. Groups with one parent, or with none, have
   * no member in common: a run is in at most one group without parent and in at most one child of each group that it is
   * in. A child adds tokens [group_shared_tokens[parent], group_shared_tokens[g]). A run in no group shares nothing. */
  int32_t num_groups; /* 0 where the attention lacks MORTISE_CAP_CASCADE; the arrays may then be NULL */
  int32_t num_ended;
  const int32_t* group_offsets;       /* [num_groups + 1] into group_seqs: members of g, its children's too */
  const int32_t* group_seqs;          /* indices of runs: into seq_ids, seq_lens, rows of block_table */
  const int32_t* group_shared_tokens; /* [num_groups] */

  const uint64_t* ended_ids; /* [num_ended] sequences that ended since the last step: drop what is kept of them */

  const int32_t* group_parents; /* [num_groups]. Since 0.4, appended. */
} mortise_batch;

/* Dimensions of a model, as the host and the other parts need them. From mortise_model_table.dims. */
typedef struct mortise_model_dims {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_layers;
  int32_t hidden_size;
  int32_t num_heads;    /* query heads */
  int32_t num_kv_heads; /* divides num_heads */
  int32_t head_dim;
  int32_t vocab_size;    /* columns of the head */
  int32_t max_model_len; /* positions; the engine never goes beyond */
  int32_t dtype;         /* of weights as computed with and of activations: MORTISE_BF16 or MORTISE_F32 */
  float attention_scale; /* scores are scale * q . k */
  /* [num_layers] sliding window in tokens: a row at position p sees keys p - window + 1 .. p; 0 is no window. NULL:
   * none has one. Lives until the model is destroyed. */
  const int32_t* sliding_windows;
  /* How the matrices of the layers are kept: 0 as dtype, else integers of so many bits (8, 4) in groups of
   * weight_group_size columns (0: a row is one group). Part of the numerics id. Since 0.1, appended. */
  int32_t weight_bits;
  int32_t weight_group_size;
} mortise_model_dims;

#endif
