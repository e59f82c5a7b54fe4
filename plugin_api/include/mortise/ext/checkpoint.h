/* mortise/ext/checkpoint.h: reads a Hugging Face folder or a GGUF file, for a part that is not a model but has weights
 * of its own, such as an MLP speculator. From the host's get_ext(MORTISE_EXT_CHECKPOINT); NULL if the host does not
 * offer it. The files are not trusted: the host checks everything that it hands out. */
#ifndef MORTISE_EXT_CHECKPOINT_H
#define MORTISE_EXT_CHECKPOINT_H

#include "mortise/model.h"

#define MORTISE_EXT_CHECKPOINT "mortise.host.checkpoint/1"

typedef struct mortise_checkpoint mortise_checkpoint;

typedef struct mortise_checkpoint_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Opens config.json and the safetensors files of `folder`, or a GGUF file; reads no weights. The caller closes the
   * checkpoint. INVALID_ARGUMENT if a file is missing or damaged; the message names the file. [control] since 0.3 */
  mortise_status (*open)(mortise_string_view folder, mortise_checkpoint** checkpoint, mortise_error* error);

  /* Closes the checkpoint, which ends every view of it; ignores NULL. [control] since 0.3 */
  void (*close)(mortise_checkpoint* checkpoint);

  /* Returns the text of config.json, normalised as in mortise_create_args.model_config. It lives until close.
   * [any] since 0.3 */
  mortise_string_view (*config)(mortise_checkpoint* checkpoint);

  /* Returns a reader of the tensors. The reader and the views that it hands out live until close. [any] since 0.3 */
  const mortise_weight_reader* (*reader)(mortise_checkpoint* checkpoint);
} mortise_checkpoint_table;

#endif
