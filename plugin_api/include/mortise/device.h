/* mortise/device.h: memory, streams and the operations that models are built from. docs/numerics.md specifies the
 * arithmetic of each operation per numerics id: devices and instruction sets with equal ids produce equal bits.
 *
 * Tensors and arrays given to operations are in device memory. The host must not touch it unless
 * mortise_device_info.host_memory is 1. An operation is queued on `stream` and may return before it has run; the caller
 * keeps its tensors until then. On a device with synchronous streams (cpu) it has run when the call returns.
 * The first call of an operation with certain shapes creates everything else that it needs, such as workspaces, and
 * chooses its algorithm. So an operation that has run once with these shapes may be captured (ext/graph.h). No bit of a
 * row depends on the number, order or content of the other rows. */
#ifndef MORTISE_DEVICE_H
#define MORTISE_DEVICE_H

#include "mortise/plugin.h"

typedef struct mortise_stream mortise_stream; /* an ordered queue of work; NULL: the default stream */
typedef struct mortise_event mortise_event;   /* a point in a stream */
typedef struct mortise_weight mortise_weight; /* a weight, repacked for the device */

typedef struct mortise_device_info {
  uint32_t struct_size;
  uint32_t flags;
  char name[64];         /* such as "NVIDIA H200" */
  char isa[64];          /* of the kernels: "amx", "avx512", "avx2", "portable"; CUDA: "sm_90" or "sm_80" */
  int32_t num_threads;   /* host threads that operations use; 0 on a GPU */
  int32_t host_memory;   /* 1: device pointers are host pointers, and streams are synchronous */
  uint64_t memory_bytes; /* total */
} mortise_device_info;

/* A weight's uses, as a bit mask: a tied embedding is LINEAR | EMBEDDING. */
enum {
  MORTISE_WEIGHT_LINEAR = 1,    /* [N, K] for linear */
  MORTISE_WEIGHT_EMBEDDING = 2, /* [N, K] for embed */
  MORTISE_WEIGHT_VECTOR = 4     /* [N] norm weight or bias */
};

/* mortise_quantized_matrix.flags, with value_type MORTISE_I8_BLOCK32 only. Since 0.6 */
enum {
  MORTISE_QUANTIZED_MINIMA = 1,    /* each group has a minimum */
  MORTISE_QUANTIZED_F16_SCALES = 2 /* all scales and minima are exact in f16: the device may store them so */
};

/* A quantised matrix, independent of the checkpoint's packing:
 *   w[n, order[j]] = scales[n, g] * (values[n, j] - zeros[n, g]),  g = j / group_size
 *   w[n, j]        = scales[n, g] * values[n, j]                   with value_type E4M3 or E2M1
 *   w[n, j]        = scales[n, g] * (values[n, j] - zero) + minima[n, g]   with value_type I8_BLOCK32
 * docs/numerics.md, "Quantised linear", "Quantised linear in blocks of 32", "Linear with FP8 weights" and "Linear with
 * MXFP4 weights", specifies the arithmetic. */
typedef struct mortise_quantized_matrix {
  uint32_t struct_size;
  uint32_t flags;       /* MORTISE_QUANTIZED_*; 0 with other value_types */
  int64_t n, k;         /* rows and columns */
  int32_t bits;         /* 4 or 8; values and zeros are 0 .. 2^bits - 1 */
  int32_t group_size;   /* columns j that share a scale: 32, a multiple of 64, or k; the last group may be shorter */
  const int32_t* order; /* [k] a permutation of 0 .. k - 1; NULL: the identity */
  void* context;        /* pass it to read */
  /* Writes rows n0 .. n1 - 1 into the caller's host memory, row-major: values [n1 - n0, k], scales and zeros [n1 - n0,
   * ceil(k / group_size)]. Cannot fail: the host checked the matrix before. [any] since 0.1 */
  void (*read)(void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros);
  /* The type of the values. 0: unsigned integers. MORTISE_F8_E4M3: bytes that hold such numbers; then `bits` is 8,
   * group_size is 128 or k, order is NULL, scales are finite, and `read` does not write to `zeros`. The device refuses
   * values that are NaN. MORTISE_F4_E2M1 (MXFP4): bytes that hold such a number in their lower half, the upper half is
   * 0; `bits` is 4, group_size is 32, order is NULL, scales are powers of two, and `read` does not write to `zeros`.
   * The device refuses scales outside of 2^-127 .. 2^125, and a NaN. MORTISE_I8_BLOCK32: unsigned integers for
   * activations in blocks of 32; group_size is 16, a multiple of 32, or k, order is NULL, and `read` does not write to
   * `zeros`; with MORTISE_QUANTIZED_MINIMA it writes two numbers for each group to `scales`, the scale and the minimum:
   * [n1 - n0, ceil(k / group_size), 2]. Since 0.6 */
  int32_t value_type;
  int32_t zero; /* the zero point of all values, 0 .. 255, with MORTISE_I8_BLOCK32; otherwise 0. Since 0.6 */
} mortise_quantized_matrix;

/* A weight as prepare_weight gets it. Everything is read during the call only. */
typedef struct mortise_weight_source {
  uint32_t struct_size;
  uint32_t flags;
  int32_t use;       /* mask of MORTISE_WEIGHT_* */
  int32_t num_parts; /* parts are concatenated along dimension 0, such as q, k, v */
  /* [num_parts] in host memory; bf16, f16 or f32; any strides, so that a shard can be a view of a matrix. */
  const mortise_tensor* const* parts;
  int32_t dtype; /* to compute in: MORTISE_BF16 or MORTISE_F32; the device converts */
  int32_t bits;  /* 0: store the weight in dtype. 8 or 4: store integers of this many bits, if use is LINEAR only */
  /* If bits is not 0: how many columns share a scale, as in mortise_quantized_matrix; 0: all K columns. The device
   * quantises `parts` as docs/numerics.md, "Quantised linear", says. */
  int32_t group_size;
  /* If bits is not 0: 0, MORTISE_F8_E4M3 or MORTISE_F4_E2M1, as in mortise_quantized_matrix. The device quantises
   * `parts` to E4M3 with one scale for each row, so group_size is then 0. E2M1 has bits 4 and group_size 32.
   * MORTISE_I8_BLOCK32 has bits 8 or 4, and group_size 32 for `parts`. Since 0.6 */
  int32_t value_type;
  /* [num_parts] quantised parts, used instead of `parts`; NULL: use `parts`. All have the same order, and the bits,
   * group_size and value_type given above. */
  const mortise_quantized_matrix* const* quantized;
  /* A key for the file of prepared weights (ext/weight_cache.h): the names of the checkpoint's tensors, and which rows
   * if only some rows of a tensor are used. Weights with different contents have different names. Empty: do not keep
   * this weight in the file. Since 0.1 */
  mortise_string_view name;
} mortise_weight_source;

enum { MORTISE_ACT_SILU = 1, MORTISE_ACT_GELU = 2, MORTISE_ACT_GELU_TANH = 3, MORTISE_ACT_RELU = 4 };

/* out[m, n - column_begin] = sum_k x[m, k] * weight[n, k] (+ bias[n]),  column_begin <= n < column_end
 *   x    [M, K]                           bf16 or f32, the weight's dtype; rows may be strided
 *   out  [M, column_end - column_begin]   x's dtype or f32; rows may be strided */
typedef struct mortise_linear_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* x;
  const mortise_weight* weight;
  const mortise_weight* bias; /* [N]; NULL: none */
  const mortise_tensor* out;
  int32_t column_begin, column_end; /* 0, 0: all N columns; else multiples of 64, column_end may be N */
  /* 0: none. MORTISE_ACT_*: a gated activation follows, with y the result of the linear:
   *   out[m, n] = act(y[m, n]) * y[m, N / 2 + n],  out [M, N / 2] in x's dtype
   * column_begin and column_end must be 0. The result has the same bits as linear, with y in x's dtype, followed by
   * gated_activation; but y need not be written to memory. Since 0.1 */
  int32_t gate_activation;
  int32_t reserved;
} mortise_linear_args;

/* rms_norm:   out = x / sqrt(mean(x^2) + eps) * weight
 * layer_norm: out = (x - mean) / sqrt(var + eps) * weight + bias
 * With `residual`: first residual := residual + x, rounded to the dtype; then the norm of residual in place of x. */
typedef struct mortise_norm_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* x;        /* [M, N] */
  const mortise_tensor* residual; /* [M, N] in and out; NULL: none */
  const mortise_weight* weight;   /* [N] */
  const mortise_weight* bias;     /* [N] layer_norm only; NULL: none */
  const mortise_tensor* out;      /* [M, N], may be x */
  float eps;
  uint32_t reserved;
} mortise_norm_args;

/* Reduces rows of logits over the vocabulary, slice by slice: each call covers columns vocab_begin .. vocab_begin + W -
 * 1, and calls come in ascending order with the same arrays. An output array that is NULL is not computed. If max and
 * sum are wanted, vocab_begin and W are multiples of vocab_slice, except that the last slice ends with the vocabulary.
 * The bits do not depend on how many slices one call covers. The other outputs take any columns (since 0.4). */
typedef struct mortise_head_reduce_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* logits; /* f32 [R, W] */
  int32_t vocab_begin;
  int32_t first;          /* 1: initialise the output arrays first */
  float* max;             /* [R] running maximum; wanted together with sum */
  float* sum;             /* [R] running sum of exp(logit - max) */
  const int32_t* targets; /* [R] in: token whose logit is wanted; -1: none */
  float* target_logits;   /* [R] written in the call that covers the target */
  /* [R] number of tokens before targets[r] in the order (logit descending, id ascending). target_logits must be final,
   * so this takes a second pass over the slices. */
  int32_t* ranks;
  int32_t top_n; /* how many of the first tokens in that order top_ids and top_logits get */
  int32_t reserved;
  int32_t* top_ids;  /* [R, top_n] -1 beyond the end of the vocabulary */
  float* top_logits; /* [R, top_n] */
  float* lse;        /* [R] max + log(sum) so far; needs max and sum */
} mortise_head_reduce_args;

/* Changes one logit l, in three steps:
 *   l := l + bias;  l := l > 0 ? l / repetition : l * repetition;  l := l - subtract
 * A bias of -inf bans the token. subtract = frequency penalty * count + presence penalty. Since 0.5 */
typedef struct mortise_logit_edit {
  int32_t token;
  float bias;
  float repetition;
  float subtract;
} mortise_logit_edit;

/* Picks one token per row of full-vocabulary logits, in the order of docs/numerics.md, "Sampling": edits, temperature,
 * min_p, top_k, top_p, then the arg max of logit / T + keyed noise. `logits` is not changed. Arrays are [R]. */
typedef struct mortise_sample_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_tensor* logits; /* f32 [R, vocab_size] */
  const float* temperatures;    /* 0: arg max */
  const int32_t* top_ks;        /* <= 0: off */
  const float* top_ps;          /* >= 1: off */
  const float* min_ps;          /* <= 0: off */
  const uint64_t* keys;         /* Philox key: hash(seed, choice index) */
  const int64_t* positions;     /* position of the drawn token; with the token id it is the Philox counter */
  /* Row r has edit_counts[r] edits, which begin at edits[edit_begins[r]]: in any order, each for a different token. The
   * host keeps each sequence's edits in device memory from step to step, and updates them with scatter_rows.
   * Since 0.5 */
  const mortise_logit_edit* edits;
  const int32_t* edit_begins; /* NULL: no row has edits */
  const int32_t* edit_counts;
  /* Row r may draw only tokens whose bit is set in the mask of ceil(vocab_size / 32) words with index allowed_index[r]
   * in allowed_masks; index -1 allows all tokens. NULL: no row is restricted. */
  const int32_t* allowed_index;
  const uint32_t* allowed_masks;
  int32_t* tokens; /* out; -1: no token is left that could be drawn */
  /* out; NULL: not wanted. Log probability of the drawn token in the final distribution, after edits, temperature and
   * filters. */
  float* processed_logprobs;
} mortise_sample_args;

typedef struct mortise_device_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Describes the hardware. If there is none, fields of `info` stay empty, and activate fails. [any] since 0.1 */
  mortise_status (*describe)(mortise_device* device, mortise_device_info* info);

  /* Returns the id of the arithmetic for a dtype, such as "cpu-bf16/1"; static. NULL: the device cannot compute in
   * this dtype. MORTISE_I8 asks for linear with quantised weights, MORTISE_I8_BLOCK32, MORTISE_F8_E4M3 and
   * MORTISE_F4_E2M1 for linear with weights of that type; NULL: prepare_weight refuses them. [any] since 0.1 */
  const char* (*numerics_id)(mortise_device* device, int32_t dtype);

  /* Writes the free and total bytes of device memory. [any] since 0.1 */
  mortise_status (*memory_info)(mortise_device* device, uint64_t* free_bytes, uint64_t* total_bytes);

  /* Allocates zero-filled device memory, 256-byte aligned; the caller returns it with `free`. RESOURCE_EXHAUSTED if
   * there is not enough. On devices that use host memory, a page takes up memory when it is first touched.
   * [control] since 0.1 */
  mortise_status (*allocate)(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error);

  /* Frees memory of `allocate`, after waiting for work that uses it; ignores NULL. [control] since 0.1 */
  void (*free)(mortise_device* device, void* memory);

  /* Copies between host and device memory in any direction, ordered on `stream`. Memory of host_allocate must stay
   * unchanged until the stream has done the copy. With other host memory the copy is done when the call returns.
   * [step] since 0.1 */
  mortise_status (*copy)(mortise_device* device, mortise_stream* stream, void* to, const void* from, uint64_t bytes,
                         mortise_error* error);

  /* Sets `bytes` bytes of device memory to `value`, ordered on `stream`. [step] since 0.1 */
  mortise_status (*fill)(mortise_device* device, mortise_stream* stream, void* memory, uint8_t value, uint64_t bytes,
                         mortise_error* error);

  /* Streams and events. A device with synchronous streams hands out NULL, and its waits return at once. */

  /* Creates a stream; the caller destroys it. [control] since 0.1 */
  mortise_status (*stream_create)(mortise_device* device, mortise_stream** stream, mortise_error* error);

  /* Destroys a stream; ignores NULL. [any] since 0.1 */
  void (*stream_destroy)(mortise_device* device, mortise_stream* stream);

  /* Blocks until all work on the stream is done. Returns a failure of that work, if there was one. [any] since 0.1 */
  mortise_status (*stream_synchronize)(mortise_device* device, mortise_stream* stream, mortise_error* error);

  /* Returns the native handle (cudaStream_t), NULL on the CPU. The device's; lives as long as the stream.
   * [any] since 0.1 */
  void* (*stream_native)(mortise_device* device, mortise_stream* stream);

  /* Creates an event; the caller destroys it. [any] since 0.1 */
  mortise_status (*event_create)(mortise_device* device, mortise_event** event, mortise_error* error);

  /* Destroys an event; ignores NULL. [any] since 0.1 */
  void (*event_destroy)(mortise_device* device, mortise_event* event);

  /* Sets the event to the point that `stream` has reached with all work queued so far. [any] since 0.1 */
  mortise_status (*event_record)(mortise_device* device, mortise_event* event, mortise_stream* stream,
                                 mortise_error* error);

  /* Makes later work on `stream` wait for the event; the caller does not wait. [any] since 0.1 */
  mortise_status (*event_wait)(mortise_device* device, mortise_event* event, mortise_stream* stream,
                               mortise_error* error);

  /* Blocks the caller until the event is reached. [any] since 0.1 */
  mortise_status (*event_synchronize)(mortise_device* device, mortise_event* event, mortise_error* error);

  /* Repacks a weight for the device; the caller returns it with free_weight. INVALID_ARGUMENT for a type, shape or
   * `bits` that the device does not support. [control] since 0.1 */
  mortise_status (*prepare_weight)(mortise_device* device, const mortise_weight_source* source, mortise_weight** weight,
                                   mortise_error* error);

  /* Frees a prepared weight; ignores NULL. [control] since 0.1 */
  void (*free_weight)(mortise_device* device, mortise_weight* weight);

  /* The operations. They return INVALID_ARGUMENT if the shapes do not fit together. `out` is the caller's memory. */

  /* Multiplies by the transpose of a weight: see mortise_linear_args. [step] since 0.1 */
  mortise_status (*linear)(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                           mortise_error* error);

  /* out[m] = weight[ids[m]]; ids i32 [M] in device memory. The host has checked that each is in 0 .. N - 1.
   * [step] since 0.1 */
  mortise_status (*embed)(mortise_device* device, mortise_stream* stream, const int32_t* ids,
                          const mortise_weight* weight, const mortise_tensor* out, mortise_error* error);

  /* Normalises rows by their root mean square: see mortise_norm_args. [step] since 0.1 */
  mortise_status (*rms_norm)(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                             mortise_error* error);

  /* Normalises rows by mean and variance: see mortise_norm_args. [step] since 0.1 */
  mortise_status (*layer_norm)(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                               mortise_error* error);

  /* out[m, i] = act(x[m, i]) * x[m, I + i]; x [M, 2 I], out [M, I]; `activation` is MORTISE_ACT_*. [step] since 0.1 */
  mortise_status (*gated_activation)(mortise_device* device, mortise_stream* stream, int32_t activation,
                                     const mortise_tensor* x, const mortise_tensor* out, mortise_error* error);

  /* out = act(x), [M, N]; out may be x; `activation` is MORTISE_ACT_*. [step] since 0.1 */
  mortise_status (*activation)(mortise_device* device, mortise_stream* stream, int32_t activation,
                               const mortise_tensor* x, const mortise_tensor* out, mortise_error* error);

  /* out = a + b, [M, N]; out may be a or b. [step] since 0.1 */
  mortise_status (*add)(mortise_device* device, mortise_stream* stream, const mortise_tensor* a,
                        const mortise_tensor* b, const mortise_tensor* out, mortise_error* error);

  /* out[r] = x[rows[r]]; rows i32 [R] in device memory. [step] since 0.1 */
  mortise_status (*gather_rows)(mortise_device* device, mortise_stream* stream, const mortise_tensor* x,
                                const int32_t* rows, const mortise_tensor* out, mortise_error* error);

  /* Computes log-sum-exp, target logits, ranks and top tokens: see mortise_head_reduce_args. [step] since 0.1 */
  mortise_status (*head_reduce)(mortise_device* device, mortise_stream* stream, const mortise_head_reduce_args* args,
                                mortise_error* error);

  /* Picks one token per row: see mortise_sample_args. [step] since 0.1 */
  mortise_status (*sample)(mortise_device* device, mortise_stream* stream, const mortise_sample_args* args,
                           mortise_error* error);

  /* Returns the width of the slices of mortise_head_reduce_args, in columns; it never changes. [any] since 0.1 */
  int32_t (*vocab_slice)(mortise_device* device);

  /* Returns the table of an extension (ext/parallel.h, ext/graph.h, ext/collective.h, ext/weight_cache.h,
   * ext/tuning.h, ext/rejection.h), or NULL if there is none. The table lives until the device is destroyed. Returns
   * the same as the component's get_ext; parts that were given the device call this one. [any] since 0.1 */
  const void* (*get_ext)(mortise_device* device, const char* id);

  /* Allocates host memory that `copy` can read and write at full speed and without blocking: page-locked memory on a
   * GPU, ordinary memory on a device that uses host memory. The host keeps the arrays of a step in it. The caller
   * returns it with host_free. [control] since 0.2 */
  mortise_status (*host_allocate)(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error);

  /* Frees memory of host_allocate, after waiting for copies that use it; ignores NULL. [control] since 0.2 */
  void (*host_free)(mortise_device* device, void* memory);

  /* Returns the *n elements of type *dtype of a weight prepared with MORTISE_WEIGHT_VECTOR, in device memory; they live
   * as long as the weight. For kernels of other parts, such as an attention that fuses q and k norms. NULL: the weight
   * is not a vector. [any] since 0.2 */
  const void* (*vector_weight)(mortise_device* device, const mortise_weight* weight, int64_t* n, int32_t* dtype);

  /* out[rows[r]] = x[r]; rows i32 [R] in device memory, all different. The other rows of out are unchanged.
   * [step] since 0.5 */
  mortise_status (*scatter_rows)(mortise_device* device, mortise_stream* stream, const mortise_tensor* x,
                                 const int32_t* rows, const mortise_tensor* out, mortise_error* error);
} mortise_device_table;

#endif
