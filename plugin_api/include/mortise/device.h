/* mortise/device.h: memory, streams and the operations that models are written in. The arithmetic of each operation is
 * specified in docs/numerics.md per numerics id; two devices (or instruction sets) with one id give the same bits.
 *
 * Tensors given to operations lie in this device's memory, which the host may not touch unless host_memory says so.
 * Operations are queued on `stream` and may return before they ran; a device whose streams are synchronous (cpu) has
 * run them. What an operation needs beside its tensors (workspaces, the choice of an algorithm) it makes at its first
 * call with shapes of that size: an operation that has run once may be captured (ext/graph.h). Every operation treats
 * each row on its own: no bit of a row depends on the number, order or content of the other rows. */
#ifndef MORTISE_DEVICE_H
#define MORTISE_DEVICE_H

#include "mortise/plugin.h"

typedef struct mortise_stream mortise_stream; /* an ordered queue of work; NULL is the device's default stream */
typedef struct mortise_event mortise_event;
typedef struct mortise_weight mortise_weight; /* a prepared weight: repacked for the device, opaque */

typedef struct mortise_device_info {
  uint32_t struct_size;
  uint32_t flags;
  char name[64];       /* e.g. "Intel(R) Xeon(R) ...", "NVIDIA H200" */
  char isa[64];        /* what kernels run on: "amx", "avx512", "avx2", "portable"; CUDA: "sm_90" */
  int32_t num_threads; /* host threads that operations use; 0 where that has no meaning */
  int32_t host_memory; /* 1: device pointers are host pointers, and streams are synchronous */
  uint64_t memory_bytes;
} mortise_device_info;

/* What a weight is for, a mask: the device packs for all uses at once (a tied embedding is LINEAR | EMBEDDING). */
enum {
  MORTISE_WEIGHT_LINEAR = 1,    /* [N, K], linear multiplies by its transpose */
  MORTISE_WEIGHT_EMBEDDING = 2, /* [N, K], rows are looked up */
  MORTISE_WEIGHT_VECTOR = 4     /* [N]: norm weights, biases */
};

/* A matrix that comes quantised, whatever the checkpoint packs it like:
 *   w[n, order[j]] = scales[n, g] * (values[n, j] - zeros[n, g]),  g = j / group_size
 * The arithmetic of linear with it is docs/numerics.md, "Quantised linear". */
typedef struct mortise_quantized_matrix {
  uint32_t struct_size;
  uint32_t flags;
  int64_t n, k;
  int32_t bits;         /* 4 or 8: values and zeros are 0 .. 2^bits - 1 */
  int32_t group_size;   /* columns j that share a scale: 32, a multiple of 64, or k; the last group may be shorter */
  const int32_t* order; /* [k], a permutation of 0 .. k - 1, or NULL: 0 1 2 .. */
  void* context;
  /* Rows n0 .. n1 - 1: values [n1 - n0, k], scales and zeros [n1 - n0, ceil(k / group_size)], row-major. Cannot fail:
   * what could was checked when the matrix was made. [any] since 0.1 */
  void (*read)(void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros);
} mortise_quantized_matrix;

typedef struct mortise_weight_source {
  uint32_t struct_size;
  uint32_t flags;
  int32_t use;       /* MORTISE_WEIGHT_* */
  int32_t num_parts; /* concatenated along dimension 0 (q, k, v; gate, up) */
  /* [num_parts] host memory, bf16, f16 or f32, any strides (a shard of a matrix is a view). Read during the call only.
   */
  const mortise_tensor* const* parts;
  int32_t dtype; /* what the model computes in: MORTISE_BF16 or MORTISE_F32; the device converts */
  int32_t bits;  /* 0: the weight is kept in dtype. 8 or 4, use LINEAR alone: it is kept as integers of so many bits */
  /* With bits: columns that share a scale, as in mortise_quantized_matrix; 0: all of K. The device quantises `parts`
   * after docs/numerics.md, "Quantised linear". */
  int32_t group_size;
  int32_t reserved;
  /* [num_parts], or NULL: the parts as they come quantised, in place of `parts`; bits, group_size and order are equal
   * in all of them and bits and group_size those above. Read during the call only. */
  const mortise_quantized_matrix* const* quantized;
  /* The names of the checkpoint's tensors that this is made of, and of a part of one which part: what is made of other
   * contents has another name. A device that keeps prepared weights in a file (ext/weight_cache.h) finds them by it;
   * empty: this one is not kept. Copied. since 0.1, appended */
  mortise_string_view name;
} mortise_weight_source;

enum { MORTISE_ACT_SILU = 1, MORTISE_ACT_GELU = 2, MORTISE_ACT_GELU_TANH = 3, MORTISE_ACT_RELU = 4 };

/* out[m, n - column_begin] = sum_k x[m, k] * weight[n, k] (+ bias[n]),  column_begin <= n < column_end
 * x [M, K] bf16 or f32, the weight's dtype; out [M, column_end - column_begin] x's dtype or f32. Rows may be strided.
 */
typedef struct mortise_linear_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* x;
  const mortise_weight* weight;
  const mortise_weight* bias; /* NULL: none */
  const mortise_tensor* out;
  int32_t column_begin, column_end; /* 0, 0: all N; else multiples of 64, or the end N */
  /* MORTISE_ACT_*, or 0: none. With it the weight's first N / 2 rows are gates, the others what they gate, out is
   * [M, N / 2] in x's dtype, and column_begin and column_end are 0: out[m, n] = act(y[m, n]) * y[m, N / 2 + n]. The
   * bits are those of a linear into y in x's dtype and gated_activation of that, but y need not pass through memory.
   * Since 0.1. */
  int32_t gate_activation;
  int32_t reserved;
} mortise_linear_args;

/* rms_norm:   out = x / sqrt(mean(x^2) + eps) * weight
 * layer_norm: out = (x - mean) / sqrt(var + eps) * weight + bias
 * With `residual` [M, N]: first residual := residual + x (rounded to the dtype, stored), and the norm is taken of that.
 */
typedef struct mortise_norm_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* x;        /* [M, N] */
  const mortise_tensor* residual; /* [M, N] in and out, or NULL */
  const mortise_weight* weight;   /* [N] */
  const mortise_weight* bias;     /* [N], layer_norm only, may be NULL */
  const mortise_tensor* out;      /* [M, N], may be x */
  float eps;
  uint32_t reserved;
} mortise_norm_args;

/* Reductions of logits [R, W] that hold columns vocab_begin .. vocab_begin + W of the vocabulary, called in ascending
 * order with the same state arrays. Where max and sum are wanted, both are multiples of the device's fixed slice width
 * except at the vocabulary's end, and the bits do not depend on how many slices a call covers; what else there is takes
 * any columns (since 0.4). A NULL array is not computed. Device memory.
 */
typedef struct mortise_head_reduce_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* logits; /* f32 [R, W] */
  int32_t vocab_begin;
  int32_t first;          /* 1: the state arrays are initialised before this slice */
  float* max;             /* [R] running maximum, with `sum` */
  float* sum;             /* [R] running sum of exp(logit - max); log-sum-exp = max + log(sum) */
  const int32_t* targets; /* [R] token whose logit is wanted, -1 none */
  float* target_logits;   /* [R] written by the slice that holds the target */
  /* Counts the tokens before `targets` in the order (logit descending, id ascending): rank = 1 + count. Needs
   * target_logits to be final: a second pass over the slices. */
  int32_t* ranks; /* [R] */
  int32_t top_n;  /* with top_ids and top_logits: the first n tokens in that order */
  int32_t reserved;
  int32_t* top_ids;  /* [R, top_n], -1 where the vocabulary is shorter */
  float* top_logits; /* [R, top_n] */
  float* lse;        /* [R] out, with max and sum: max + log(sum) over all slices so far */
} mortise_head_reduce_args;

/* An edit of one logit: l := l + bias; l := l > 0 ? l / repetition : l * repetition; l := l - subtract. A bias of -inf
 * bans the token; subtract is frequency penalty * count + presence penalty. Since 0.5 */
typedef struct mortise_logit_edit {
  int32_t token;
  float bias;
  float repetition;
  float subtract;
} mortise_logit_edit;

/* Picks one token per row of full-vocabulary logits; the procedure is docs/numerics.md, "Sampling": bias, repetition,
 * frequency and presence penalties, temperature, min_p, top_k, top_p, then arg max of logit / T + keyed noise. Device
 * memory all; arrays are [R]. `logits` is not changed. */
typedef struct mortise_sample_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* logits; /* f32 [R, vocab_size] */
  const float* temperatures;    /* 0: arg max */
  const int32_t* top_ks;        /* <= 0: off */
  const float* top_ps;          /* >= 1: off */
  const float* min_ps;          /* <= 0: off */
  const uint64_t* keys;         /* hash(seed, choice index): the Philox key */
  const int64_t* positions;     /* of the token that is drawn: the Philox counter with the token id */
  /* Row r has the edit_counts[r] edits from edits[edit_begins[r]] on, in any order, of different tokens. The host keeps
   * the edits of a sequence there from step to step and brings them up to date with scatter_rows. Since 0.5 */
  const mortise_logit_edit* edits;
  const int32_t* edit_begins; /* NULL: no row has edits */
  const int32_t* edit_counts;
  /* Allowed sets: row r may draw only tokens whose bit is set in allowed_masks[allowed_index[r] * ceil(vocab / 32)
   * ...]; index -1 allows all. NULL: no row is restricted. */
  const int32_t* allowed_index;
  const uint32_t* allowed_masks;
  int32_t* tokens; /* out */
  /* Out, or NULL: log of the probability of the drawn token after all of the above (the distribution it was drawn
   * from). */
  float* processed_logprobs;
} mortise_sample_args;

typedef struct mortise_device_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Fills `info`. [any] since 0.1 */
  mortise_status (*describe)(mortise_device* device, mortise_device_info* info);
  /* The id of the arithmetic for a dtype ("cpu-bf16/1", "cpu-f32/1"), static, or NULL: cannot compute in it.
   * MORTISE_I8: linear with quantised weights ("cpu-int8/1"); NULL: prepare_weight takes no `bits`. [any] since 0.1 */
  const char* (*numerics_id)(mortise_device* device, int32_t dtype);
  /* Free and total bytes of device memory. [any] since 0.1 */
  mortise_status (*memory_info)(mortise_device* device, uint64_t* free_bytes, uint64_t* total_bytes);

  /* Zero-filled device memory, 256-byte aligned; host-memory devices take pages when they are first touched. [control]
   * since 0.1 */
  mortise_status (*allocate)(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error);
  /* NULL is fine; waits for work that uses it. [control] since 0.1 */
  void (*free)(mortise_device* device, void* memory);
  /* Copies between host and device memory in any direction, ordered on `stream`. Memory of host_allocate must stay
   * until the stream got there; other host memory has been read, or written, when the call returns. [step] since 0.1 */
  mortise_status (*copy)(mortise_device* device, mortise_stream* stream, void* to, const void* from, uint64_t bytes,
                         mortise_error* error);
  /* Sets bytes. [step] since 0.1 */
  mortise_status (*fill)(mortise_device* device, mortise_stream* stream, void* memory, uint8_t value, uint64_t bytes,
                         mortise_error* error);

  /* Streams and events; a device with synchronous streams hands out NULL and returns at once. [control], the rest [any]
   * since 0.1 */
  mortise_status (*stream_create)(mortise_device* device, mortise_stream** stream, mortise_error* error);
  void (*stream_destroy)(mortise_device* device, mortise_stream* stream);
  mortise_status (*stream_synchronize)(mortise_device* device, mortise_stream* stream, mortise_error* error);
  void* (*stream_native)(mortise_device* device, mortise_stream* stream); /* cudaStream_t; NULL on the CPU */
  mortise_status (*event_create)(mortise_device* device, mortise_event** event, mortise_error* error);
  void (*event_destroy)(mortise_device* device, mortise_event* event);
  mortise_status (*event_record)(mortise_device* device, mortise_event* event, mortise_stream* stream,
                                 mortise_error* error);
  mortise_status (*event_wait)(mortise_device* device, mortise_event* event, mortise_stream* stream,
                               mortise_error* error); /* the stream waits */
  mortise_status (*event_synchronize)(mortise_device* device, mortise_event* event,
                                      mortise_error* error); /* the host waits */

  /* Repacks a weight once. Lives until free_weight. [control] since 0.1 */
  mortise_status (*prepare_weight)(mortise_device* device, const mortise_weight_source* source, mortise_weight** weight,
                                   mortise_error* error);
  void (*free_weight)(mortise_device* device, mortise_weight* weight); /* NULL is fine. [control] since 0.1 */

  /* The operations: [step] since 0.1. Shapes that do not fit are INVALID_ARGUMENT. */
  mortise_status (*linear)(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                           mortise_error* error);
  /* out[m] = weight[ids[m]], ids i32 [M] in device memory, each in 0 .. N-1 (the host has checked). */
  mortise_status (*embed)(mortise_device* device, mortise_stream* stream, const int32_t* ids,
                          const mortise_weight* weight, const mortise_tensor* out, mortise_error* error);
  mortise_status (*rms_norm)(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                             mortise_error* error);
  mortise_status (*layer_norm)(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                               mortise_error* error);
  /* out[m, i] = act(x[m, i]) * x[m, I + i]; x [M, 2 I], out [M, I]. */
  mortise_status (*gated_activation)(mortise_device* device, mortise_stream* stream, int32_t activation,
                                     const mortise_tensor* x, const mortise_tensor* out, mortise_error* error);
  /* out = act(x), [M, N]; out may be x. */
  mortise_status (*activation)(mortise_device* device, mortise_stream* stream, int32_t activation,
                               const mortise_tensor* x, const mortise_tensor* out, mortise_error* error);
  /* out = a + b, [M, N]; out may be a or b. */
  mortise_status (*add)(mortise_device* device, mortise_stream* stream, const mortise_tensor* a,
                        const mortise_tensor* b, const mortise_tensor* out, mortise_error* error);
  /* out[r] = x[rows[r]], rows i32 [R] in device memory. */
  mortise_status (*gather_rows)(mortise_device* device, mortise_stream* stream, const mortise_tensor* x,
                                const int32_t* rows, const mortise_tensor* out, mortise_error* error);
  mortise_status (*head_reduce)(mortise_device* device, mortise_stream* stream, const mortise_head_reduce_args* args,
                                mortise_error* error);
  mortise_status (*sample)(mortise_device* device, mortise_stream* stream, const mortise_sample_args* args,
                           mortise_error* error);

  /* The fixed width of head_reduce's slices of max and sum, in columns. [any] since 0.1 */
  int32_t (*vocab_slice)(mortise_device* device);

  /* The table of an extension of this device (ext/parallel.h, ext/graph.h, ext/collective.h) or NULL; lives until the
   * device is destroyed. What the component's get_ext answers, for parts that hold the device. [any] since 0.1 */
  const void* (*get_ext)(mortise_device* device, const char* id);

  /* Host memory that `copy` moves at full speed and without waiting: page-locked on a GPU, plain where device memory is
   * the host's. For what is uploaded and brought back each step. [control] since 0.2 */
  mortise_status (*host_allocate)(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error);
  /* NULL is fine; waits for copies that use it. [control] since 0.2 */
  void (*host_free)(mortise_device* device, void* memory);

  /* The elements of a weight prepared as MORTISE_WEIGHT_VECTOR, in device memory, for kernels of other parts that fuse
   * it (q and k norms in attention): *n of them, of the type that the model computes in, *dtype. Lives as long as the
   * weight. NULL: a weight of another kind. [any] since 0.2 */
  const void* (*vector_weight)(mortise_device* device, const mortise_weight* weight, int64_t* n, int32_t* dtype);

  /* out[rows[r]] = x[r], rows i32 [R] in device memory, all different. The other rows of out stay. [step] since 0.5 */
  mortise_status (*scatter_rows)(mortise_device* device, mortise_stream* stream, const mortise_tensor* x,
                                 const int32_t* rows, const mortise_tensor* out, mortise_error* error);
} mortise_device_table;

#endif
