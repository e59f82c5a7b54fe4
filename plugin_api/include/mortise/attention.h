/* mortise/attention.h: owns the layout of the KV cache and the kernels that write and read it. The host owns the blocks
 * (which sequence holds which), the attention owns what is inside. Keys are cut into spans at absolute positions
 * (docs/numerics.md, "Attention"), so that a row's bits depend on its own sequence alone. */
#ifndef MORTISE_ATTENTION_H
#define MORTISE_ATTENTION_H

#include "mortise/model.h"

typedef struct mortise_kv_layout {
  uint32_t struct_size;
  uint32_t flags;
  char layout_id[64];       /* equal ids: one instance can read what the other wrote */
  uint64_t bytes_per_block; /* of all layers */
} mortise_kv_layout;

typedef struct mortise_attention_bind_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_model_dims* dims; /* lives as long as the instance */
  int32_t kv_dtype;
  int32_t block_size;
  int32_t num_blocks;
  int32_t reserved;
  void* kv; /* device memory, num_blocks * bytes_per_block, zero at first; lives until the instance is destroyed */
  uint64_t kv_bytes;
} mortise_attention_bind_args;

/* Rotary embedding of q and k, before they are written or used. Pair i of a head (0 <= i < rotary_dim / 2) is rotated
 * by the angle of table row `position`. */
typedef struct mortise_rope {
  uint32_t struct_size;
  uint32_t flags;
  const float* cos; /* device memory, [max_model_len, rotary_dim / 2] */
  const float* sin;
  int32_t rotary_dim;  /* <= head_dim; the rest of a head passes through */
  int32_t interleaved; /* 0: pair (i, i + rotary_dim / 2) as in Llama's checkpoints; 1: pair (2 i, 2 i + 1) */
} mortise_rope;

typedef struct mortise_append_args {
  uint32_t struct_size;
  uint32_t flags;
  int32_t layer;
  int32_t reserved;
  const mortise_tensor* q; /* [T, num_heads, head_dim]: normed and rotated in place; rows may be strided */
  const mortise_tensor* k; /* [T, num_kv_heads, head_dim] may be changed in place */
  const mortise_tensor* v;
  const mortise_rope* rope;     /* NULL: none */
  const mortise_weight* q_norm; /* per-head rms norm before rope, [head_dim]; NULL: none */
  const mortise_weight* k_norm;
  float norm_eps;
  uint32_t reserved2;
} mortise_append_args;

typedef struct mortise_attention_table {
  uint32_t struct_size;
  uint32_t flags;

  /* The layout for a model, before bind. [control & created] since 0.1 */
  mortise_status (*kv_layout)(mortise_attention* attention, const mortise_model_dims* dims, int32_t kv_dtype,
                              int32_t block_size, mortise_kv_layout* layout, mortise_error* error);
  /* Gives the instance its model and its memory; once, before activate. [control & created] since 0.1 */
  mortise_status (*bind)(mortise_attention* attention, const mortise_attention_bind_args* args, mortise_error* error);
  /* Once a step, before the model's forward or the replay of it: chooses the work of every later `run`. Never captured:
   * it may look at the host arrays and copy what it makes of them to the device, on the step's stream. For a batch with
   * MORTISE_BATCH_BUCKET the launches of append and run, and the addresses they read, must not depend on what it finds
   * there, but on the bucket alone. [step & active] since 0.1 */
  mortise_status (*plan)(mortise_attention* attention, const mortise_step* step, mortise_error* error);
  /* Norms and rotates q and k, writes k and v to the batch's slots. [step & active] since 0.1 */
  mortise_status (*append)(mortise_attention* attention, const mortise_step* step, const mortise_append_args* args,
                           mortise_error* error);
  /* out[t, h] = softmax(scale * q . K) V over the keys that row t sees; q as append left it, out [T, num_heads,
   * head_dim] of q's dtype. No other key changes a bit of the row, not even by NaN: later rows of the batch, and what
   * an earlier sequence left in a block, which the host hands on as it is. [step & active] since 0.1 */
  mortise_status (*run)(mortise_attention* attention, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                        const mortise_tensor* out, mortise_error* error);
  /* Copies whole blocks, all layers: to[i] := from[i]; `from` and `to` are host arrays, read during the call. The two
   * sets are disjoint. [step & active] since 0.1 */
  mortise_status (*copy_blocks)(mortise_attention* attention, mortise_stream* stream, const int32_t* from,
                                const int32_t* to, int32_t num_blocks, mortise_error* error);
} mortise_attention_table;

#endif
