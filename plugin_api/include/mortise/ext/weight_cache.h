/* mortise/ext/weight_cache.h: prepared weights that outlive the process. A device that offers this can keep what
 * prepare_weight made in a file, and hand it out at the next start in place of making it again. The host says which
 * checkpoint a model is loaded from, the model names its weights (mortise_weight_source.name), and the device alone
 * knows the file. From the device's get_ext(MORTISE_EXT_WEIGHT_CACHE).
 *
 * A file is never trusted: one that is damaged, or belongs to another checkpoint, another format or another version of
 * the device, is told in the log and not used. Weights that come from a file are bit for bit those that would be made.
 */
#ifndef MORTISE_EXT_WEIGHT_CACHE_H
#define MORTISE_EXT_WEIGHT_CACHE_H

#include "mortise/device.h"

#define MORTISE_EXT_WEIGHT_CACHE "mortise.device.weight_cache/1"

typedef struct mortise_weight_cache_args {
  uint32_t struct_size;
  uint32_t flags;
  mortise_string_view folder;   /* where the file may lie: the checkpoint's */
  mortise_string_view format;   /* of the weights, part of the file's name: "bf16", "bf16-int4-64" */
  mortise_string_view identity; /* any bytes; equal only while the checkpoint's files are the same and unchanged */
} mortise_weight_cache_args;

typedef struct mortise_weight_cache_table {
  uint32_t struct_size;
  uint32_t flags;
  /* 1: the options of this device ask for a file, so open is of use. [any] since 0.1 */
  int32_t (*enabled)(mortise_device* device);
  /* What prepare_weight is given until close belongs to this checkpoint. A file that cannot be used is no error.
   * [control] since 0.1 */
  mortise_status (*open)(mortise_device* device, const mortise_weight_cache_args* args, mortise_error* error);
  /* Writes the file if weights were prepared that were not in it and `loaded` is 1: all went well. One that cannot be
   * written is told in the log. Weights stay as they are. [control] since 0.1 */
  void (*close)(mortise_device* device, int32_t loaded);
} mortise_weight_cache_table;

#endif
