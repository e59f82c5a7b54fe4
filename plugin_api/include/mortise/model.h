/* mortise/model.h: an architecture. Reads a checkpoint through the host, prepares weights on the device, and turns a
 * batch into hidden rows with the device's operations and the attention that each step names. It keeps no state of
 * sequences and caches neither the attention's nor the device's table: that is what makes them swappable between two
 * steps. */
#ifndef MORTISE_MODEL_H
#define MORTISE_MODEL_H

#include "mortise/device.h"

typedef struct mortise_model mortise_model;
typedef struct mortise_attention mortise_attention;
struct mortise_attention_table;
struct mortise_collective_table;
typedef struct mortise_communicator mortise_communicator; /* ext/collective.h */

/* What one step runs with. Everything is borrowed for the step. */
typedef struct mortise_step {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t generation; /* changes when any part was replaced */
  const mortise_batch* batch;
  mortise_device* device;
  const mortise_device_table* device_table;
  mortise_stream* stream;
  mortise_attention* attention;
  const struct mortise_attention_table* attention_table;
  int32_t rank, world;
  mortise_communicator* communicator; /* NULL when world is 1 */
  const struct mortise_collective_table* collective;
} mortise_step;

/* The host's view of a checkpoint. Valid during load. */
typedef struct mortise_weight_reader {
  uint32_t struct_size;
  uint32_t flags;
  void* context;
  /* Fills `tensor` with a read-only view of the named tensor in host memory (usually the mapped file), valid until load
   * returns. NOT_FOUND if there is none of that name. [any] since 0.1 */
  mortise_status (*get)(void* context, mortise_string_view name, mortise_tensor* tensor);
  /* The matrix that a quantised checkpoint has in place of the tensor `name` ("...q_proj.weight"), valid until load
   * returns. NOT_FOUND: it has none, ask get. DATA_LOSS with a text: it has one that cannot be read. NULL: the
   * checkpoint is not quantised. [any] since 0.1, appended */
  mortise_status (*get_quantized)(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                                  mortise_error* error);
} mortise_weight_reader;

typedef struct mortise_model_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Dimensions, known from the configuration alone. [any & created] since 0.1 */
  mortise_status (*dims)(mortise_model* model, mortise_model_dims* dims, mortise_error* error);
  /* Reads and prepares all weights; once, before activate. A missing or misshapen tensor is DATA_LOSS with its name,
   * the shape found and the shape expected. [control & created] since 0.1 */
  mortise_status (*load)(mortise_model* model, const mortise_weight_reader* reader, mortise_error* error);
  /* Runs all layers. `hidden` gets a view of the input of the head (after the final norm), [num_tokens, hidden_size],
   * valid until the next forward. Its sequence of operations depends on the batch's bucket only, never on values, so
   * that it can be captured. [step & active] since 0.1 */
  mortise_status (*forward)(mortise_model* model, const mortise_step* step, mortise_tensor* hidden,
                            mortise_error* error);
  /* logits[r, v - vocab_begin] for the rows of `hidden` [R, hidden_size], R <= max_logit_rows; logits f32 [R, vocab_end
   * - vocab_begin], bounds as linear's columns. Rows of both may be strided. [step & active] since 0.1 */
  mortise_status (*head)(mortise_model* model, const mortise_step* step, const mortise_tensor* hidden,
                         int32_t vocab_begin, int32_t vocab_end, const mortise_tensor* logits, mortise_error* error);
} mortise_model_table;

#endif
