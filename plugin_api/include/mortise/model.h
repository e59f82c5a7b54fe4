/* mortise/model.h: a model architecture. It reads a checkpoint through the host, prepares weights on the device, and
 * turns a batch into hidden rows, using the device's operations and the attention that each step names. A model keeps
 * no state of sequences and no table of another part beyond a step, so the host can swap these parts between two steps.
 */
#ifndef MORTISE_MODEL_H
#define MORTISE_MODEL_H

#include "mortise/device.h"

typedef struct mortise_model mortise_model;
typedef struct mortise_attention mortise_attention;
struct mortise_attention_table;
struct mortise_collective_table;
typedef struct mortise_communicator mortise_communicator; /* ext/collective.h */

/* The parts and the batch of one step. Everything is borrowed for the step. */
typedef struct mortise_step {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t generation; /* changes whenever a part is replaced */
  const mortise_batch* batch;
  mortise_device* device;
  const mortise_device_table* device_table;
  mortise_stream* stream; /* all work of the step is queued here */
  mortise_attention* attention;
  const struct mortise_attention_table* attention_table;
  /* Tensor parallel (ext/collective.h): this instance is rank `rank` of `world`. One device: 0 of 1. */
  int32_t rank, world;
  mortise_communicator* communicator;                /* NULL when world is 1 */
  const struct mortise_collective_table* collective; /* NULL when world is 1 */
} mortise_step;

/* Reads a checkpoint. The host provides it. */
typedef struct mortise_weight_reader {
  uint32_t struct_size;
  uint32_t flags;
  void* context; /* pass it to the functions */
  /* Fills `tensor` with a read-only view of the named tensor in host memory, usually the mapped file. The view is valid
   * until load returns; a view of ext/checkpoint.h is valid until close. NOT_FOUND if there is no such tensor;
   * RESOURCE_EXHAUSTED if there is no memory for one that the file has in another form (GGUF). A matrix may be strided.
   * [any] since 0.1 */
  mortise_status (*get)(void* context, mortise_string_view name, mortise_tensor* tensor);

  /* Fills `matrix` with the quantised matrix that the checkpoint has instead of the tensor `name`, such as
   * "...q_proj.weight"; valid as long as a view from get. NOT_FOUND: there is none, use get. DATA_LOSS: there is one
   * that cannot be read. The slot is NULL if the checkpoint is not quantised. [any] since 0.1 */
  mortise_status (*get_quantized)(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                                  mortise_error* error);
} mortise_weight_reader;

typedef struct mortise_model_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Fills `dims` from the configuration alone, before load. Arrays in it live until destroy. A failure refuses the
   * model. [any & created] since 0.1 */
  mortise_status (*dims)(mortise_model* model, mortise_model_dims* dims, mortise_error* error);

  /* Reads and prepares all weights, once, before activate. Keep nothing of `reader`. DATA_LOSS if a tensor is missing
   * or has a wrong shape: the message has its name, the shape found and the shape expected.
   * [control & created] since 0.1 */
  mortise_status (*load)(mortise_model* model, const mortise_weight_reader* reader, mortise_error* error);

  /* Runs all layers. Fills `hidden` with a view of the head's input (after the final norm), [num_tokens, hidden_size],
   * in bf16 or f32, in the model's device memory; valid until the next forward. The operations must depend on the
   * batch's bucket only, never on values, so that the host can capture them. A `hidden` of another shape or type counts
   * as INTERNAL. [step & active] since 0.1 */
  mortise_status (*forward)(mortise_model* model, const mortise_step* step, mortise_tensor* hidden,
                            mortise_error* error);

  /* Writes logits[r, v - vocab_begin] for row r of `hidden` [R, hidden_size], R <= max_logit_rows, and vocab_begin <= v
   * < vocab_end. logits is f32 [R, vocab_end - vocab_begin] in device memory that the caller owns. The bounds follow
   * the rule of mortise_linear_args.column_begin. Rows of both tensors may be strided. [step & active] since 0.1 */
  mortise_status (*head)(mortise_model* model, const mortise_step* step, const mortise_tensor* hidden,
                         int32_t vocab_begin, int32_t vocab_end, const mortise_tensor* logits, mortise_error* error);
} mortise_model_table;

#endif
