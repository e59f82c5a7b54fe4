/* mortise/ext/checkpoint.h: reads a Hugging Face folder for a part that is no model and has weights of its own (a
 * speculator's). From the host's get_ext(MORTISE_EXT_CHECKPOINT); NULL in a host that has none. Files come from
 * strangers: the host has checked everything that the reader hands out. */
#ifndef MORTISE_EXT_CHECKPOINT_H
#define MORTISE_EXT_CHECKPOINT_H

#include "mortise/model.h"

#define MORTISE_EXT_CHECKPOINT "mortise.host.checkpoint/1"

typedef struct mortise_checkpoint mortise_checkpoint;

typedef struct mortise_checkpoint_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Opens config.json and the safetensors files in the folder; reads no weight. On failure *checkpoint is NULL and the
   * message names the file. [control] since 0.3 */
  mortise_status (*open)(mortise_string_view folder, mortise_checkpoint** checkpoint, mortise_error* error);
  void (*close)(mortise_checkpoint* checkpoint); /* NULL is fine. [control] since 0.3 */
  /* config.json, normalised as a model's is. Lives until close. [any] since 0.3 */
  mortise_string_view (*config)(mortise_checkpoint* checkpoint);
  /* Its tensors, until close. [any] since 0.3 */
  const mortise_weight_reader* (*reader)(mortise_checkpoint* checkpoint);
} mortise_checkpoint_table;

#endif
