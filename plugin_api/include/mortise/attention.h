/* mortise/attention.h: an attention owns the layout of the KV cache and the kernels that write and read it. The host
 * decides which sequence holds which block; the attention decides what a block contains. Keys are cut into spans at
 * absolute positions (docs/numerics.md, "Attention"), so a row's bits depend on its own sequence only. */
#ifndef MORTISE_ATTENTION_H
#define MORTISE_ATTENTION_H

#include "mortise/model.h"

typedef struct mortise_kv_layout {
  uint32_t struct_size;
  uint32_t flags;
  char layout_id[64];       /* NUL-terminated; instances with equal ids can read each other's blocks */
  uint64_t bytes_per_block; /* all layers together */
} mortise_kv_layout;

typedef struct mortise_attention_bind_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_model_dims* dims; /* lives until destroy */
  int32_t kv_dtype;               /* MORTISE_BF16, MORTISE_F32, MORTISE_I8 or MORTISE_F8_E4M3 */
  int32_t block_size;             /* tokens per block */
  int32_t num_blocks;
  int32_t reserved;
  void* kv; /* device memory of num_blocks * bytes_per_block, zero-filled; the host's, lives until destroy */
  uint64_t kv_bytes;
} mortise_attention_bind_args;

/* Rotary embedding of q and k. Pair i of a head, 0 <= i < rotary_dim / 2, is rotated by the angle in row `position`,
 * column i of the tables. */
typedef struct mortise_rope {
  uint32_t struct_size;
  uint32_t flags;
  const float* cos;    /* device memory, [max_model_len, rotary_dim / 2] */
  const float* sin;    /* like cos */
  int32_t rotary_dim;  /* <= head_dim; the rest of the head is unchanged */
  int32_t interleaved; /* 0: pair i is (i, i + rotary_dim / 2), as in Llama; 1: (2 i, 2 i + 1) */
} mortise_rope;

/* Tensors are in device memory. T is num_tokens of the batch. */
typedef struct mortise_append_args {
  uint32_t struct_size;
  uint32_t flags;
  int32_t layer;
  int32_t reserved;
  const mortise_tensor* q;      /* [T, num_heads, head_dim] normed and rotated in place; rows may be strided */
  const mortise_tensor* k;      /* [T, num_kv_heads, head_dim] may be changed in place */
  const mortise_tensor* v;      /* [T, num_kv_heads, head_dim] */
  const mortise_rope* rope;     /* NULL: none */
  const mortise_weight* q_norm; /* [head_dim] rms norm of each head, before rope; NULL: none */
  const mortise_weight* k_norm; /* like q_norm */
  float norm_eps;
  uint32_t reserved2;
} mortise_append_args;

typedef struct mortise_attention_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Fills `layout` for a model, before bind; the host sizes the KV pool with it. Any failure refuses the attention for
   * this model. [control & created] since 0.1 */
  mortise_status (*kv_layout)(mortise_attention* attention, const mortise_model_dims* dims, int32_t kv_dtype,
                              int32_t block_size, mortise_kv_layout* layout, mortise_error* error);

  /* Gives the instance its model's dimensions and its KV memory, once, before activate.
   * [control & created] since 0.1 */
  mortise_status (*bind)(mortise_attention* attention, const mortise_attention_bind_args* args, mortise_error* error);

  /* Prepares the step's append and run calls, such as which thread block computes which keys. Called once per step,
   * before the forward pass or its replay. Never captured: it may read the host arrays and queue copies to the device
   * on the step's stream. With MORTISE_BATCH_BUCKET, the launches of append and run and the addresses they read must
   * depend on the bucket alone, not on the arrays. [step & active] since 0.1 */
  mortise_status (*plan)(mortise_attention* attention, const mortise_step* step, mortise_error* error);

  /* Norms and rotates q and k, and writes k and v to the slots of the batch. The model calls it for each layer before
   * `run`. [step & active] since 0.1 */
  mortise_status (*append)(mortise_attention* attention, const mortise_step* step, const mortise_append_args* args,
                           mortise_error* error);

  /* Computes out[t, h] = softmax(scale * q . K) V over the keys that row t sees. q is as append left it; out is
   * [T, num_heads, head_dim] in q's dtype. No other key may change a bit of the row: neither a later row of the batch,
   * nor values that an earlier sequence left in a block, even NaN. The host does not clear blocks between sequences.
   * [step & active] since 0.1 */
  mortise_status (*run)(mortise_attention* attention, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                        const mortise_tensor* out, mortise_error* error);

  /* Copies block from[i] to block to[i], all layers, 0 <= i < num_blocks. `from` and `to` are host arrays and have no
   * block in common. [step & active] since 0.1 */
  mortise_status (*copy_blocks)(mortise_attention* attention, mortise_stream* stream, const int32_t* from,
                                const int32_t* to, int32_t num_blocks, mortise_error* error);
} mortise_attention_table;

#endif
