/* mortise/batch.h: the work of one step, as a ragged batch. A row is one token of one sequence. A run is a sequence's
 * consecutive rows in the batch: a chunk of a prompt, a decoded token, drafts to verify or a completion to score. The
 * head computes logits for some of the rows.
 *
 * Every array exists on the host and, as device_*, in the device's memory; the host uploads one packed buffer per step.
 * Models and kernels read the device arrays only, so that a captured graph can be replayed. On a device that uses host
 * memory the two pointers may be equal. All arrays are borrowed for the step.
 *
 * Several runs of one sequence: each draft may be a run of one row, and each path of a draft tree may be a run. An
 * attention without MORTISE_CAP_MULTI_QUERY only gets drafts as runs of one row. Such runs have the same sequence id,
 * and their block tables share blocks. A row may attend to keys that another run of the same batch writes. So each
 * layer first writes K and V of all rows (append), and then computes the attention (run).
 *
 * Padding: for captured graphs the host pads num_tokens and num_seqs up to a bucket. Padding rows have token 0,
 * position 0 and a slot in a reserved block. They belong to sequences with seq_len 0, whose block table names that
 * block. num_tokens and num_seqs include padding, num_real_* do not. Nothing reads the results of padding rows.
 *
 * Buckets: MORTISE_BATCH_BUCKET means that the forward pass of this batch is, or may become, a captured graph.
 * num_tokens, num_seqs, max_blocks, max_query_len and max_seq_len are then the bucket's: upper bounds of the values
 * in the arrays. All device arrays except the logit rows have the same addresses each time. Kernel launches may depend
 * on these numbers and addresses only. */
#ifndef MORTISE_BATCH_H
#define MORTISE_BATCH_H

#include "mortise/tensor.h"

enum { MORTISE_BATCH_BUCKET = 1 }; /* mortise_batch.flags */

typedef struct mortise_batch {
  uint32_t struct_size;
  uint32_t flags;                               /* MORTISE_BATCH_* */
  uint64_t step_id;                             /* grows by one each step */
  int32_t num_seqs, num_tokens, num_logit_rows; /* num_seqs counts runs */
  int32_t num_real_seqs, num_real_tokens;
  int32_t block_size;    /* tokens per KV block */
  int32_t max_blocks;    /* row length of block_table */
  int32_t max_query_len; /* rows of the longest run */
  int32_t max_seq_len;   /* the largest of seq_lens */

  const uint64_t* seq_ids;     /* [num_seqs] the host never reuses an id */
  const int32_t* token_ids;    /* [num_tokens] */
  const int32_t* positions;    /* [num_tokens] in the sequence, from 0; ascending by one within a run */
  const int32_t* cu_seqlens_q; /* [num_seqs + 1] run i has rows cu_seqlens_q[i] .. cu_seqlens_q[i + 1] - 1; first 0,
                                  last num_tokens */
  const int32_t* seq_lens;     /* [num_seqs] last position of the run + 1: tokens with KV after this step */
  const int32_t* block_table;  /* [num_seqs, max_blocks] token t of run i is in block block_table[i][t / block_size] */
  const int64_t* slot_mapping; /* [num_tokens] where a row's K and V go: block * block_size + offset */
  const int32_t* logit_rows;   /* [num_logit_rows] rows to compute logits for, ascending */

  /* The same arrays in device memory. */
  const int32_t* device_token_ids;
  const int32_t* device_positions;
  const int32_t* device_cu_seqlens_q;
  const int32_t* device_seq_lens;
  const int32_t* device_block_table;
  const int64_t* device_slot_mapping;
  const int32_t* device_logit_rows;

  /* Prefix groups: runs whose sequences begin with the same KV blocks. The host finds them in the block tables. They
   * tell an attention which blocks it could read once for several runs; it may ignore them. Which tokens a row sees
   * depends on its position and window only, never on groups. The arrays are on the host only.
   *
   * Group g shares tokens 0 .. group_shared_tokens[g] - 1, which fill whole blocks: up to there the block tables of its
   * members are equal. Each row of a member has position group_shared_tokens[g] - 1 or above, so it sees all shared
   * tokens within its window. A group has at least two members, ascending and without repetition. Padding is never a
   * member; runs with equal sequence ids can be.
   *
   * Groups nest: group_parents[g] is the group that contains g, or -1. A parent comes before its children, has all of
   * their members, and shares fewer tokens than they do. Two groups with the same parent, or both without one, have no
   * member in common. A child adds tokens group_shared_tokens[parent] .. group_shared_tokens[g] - 1. */
  int32_t num_groups; /* 0 if the attention lacks MORTISE_CAP_CASCADE; the arrays may then be NULL */
  int32_t num_ended;
  const int32_t* group_offsets;       /* [num_groups + 1] into group_seqs; members of g include its children's */
  const int32_t* group_seqs;          /* run indices */
  const int32_t* group_shared_tokens; /* [num_groups] */

  const uint64_t* ended_ids; /* [num_ended] sequences that ended since the last step: drop their state */

  const int32_t* group_parents; /* [num_groups]. Since 0.4 */
} mortise_batch;

/* Dimensions of a model, from mortise_model_table.dims. */
typedef struct mortise_model_dims {
  uint32_t struct_size;
  uint32_t flags;
  int32_t num_layers;
  int32_t hidden_size;
  int32_t num_heads;    /* query heads */
  int32_t num_kv_heads; /* divides num_heads */
  int32_t head_dim;
  int32_t vocab_size;    /* columns of the head */
  int32_t max_model_len; /* in tokens; no sequence is longer */
  int32_t dtype;         /* of activations and of weights in computation: MORTISE_BF16 or MORTISE_F32 */
  float attention_scale; /* scores are scale * q . k */
  /* [num_layers] sliding windows in tokens: a row at position p sees keys p - window + 1 .. p; 0: no window in that
   * layer. NULL: no layer has one. Lives until the model is destroyed. */
  const int32_t* sliding_windows;
  /* How the layers' matrices are stored: 0 means in dtype; 8 or 4 means integers of this many bits, in groups of
   * weight_group_size columns (0: the whole row is one group). Part of the numerics id. Since 0.1 */
  int32_t weight_bits;
  int32_t weight_group_size;
  /* The type of the stored weights: 0, integers of weight_bits bits; MORTISE_F8_E4M3, with weight_bits 8;
   * MORTISE_F4_E2M1, with weight_bits 4 and weight_group_size 32; MORTISE_I8_BLOCK32, with weight_bits 8 or 4.
   * Since 0.6 */
  int32_t weight_type;
  int32_t reserved;
} mortise_model_dims;

#endif
