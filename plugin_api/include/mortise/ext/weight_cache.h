/* mortise/ext/weight_cache.h: prepared weights that outlive the process. A device that offers this can store the
 * results of prepare_weight in a file, and read them at the next start instead of preparing the weights again. The host
 * names the checkpoint, the model names its weights (mortise_weight_source.name), and only the device knows the file.
 * From the device's get_ext(MORTISE_EXT_WEIGHT_CACHE).
 *
 * The device does not trust the file. If it is damaged, or belongs to another checkpoint, format or version of the
 * device, the device logs that and ignores it. Weights from a file have the same bits as weights that were prepared. */
#ifndef MORTISE_EXT_WEIGHT_CACHE_H
#define MORTISE_EXT_WEIGHT_CACHE_H

#include "mortise/device.h"

#define MORTISE_EXT_WEIGHT_CACHE "mortise.device.weight_cache/1"

typedef struct mortise_weight_cache_args {
  uint32_t struct_size;
  uint32_t flags;
  mortise_string_view folder;   /* where to put the file: the checkpoint's folder */
  mortise_string_view format;   /* of the weights, part of the file's name: "bf16-int4-64" */
  mortise_string_view identity; /* any bytes; differs as soon as a file of the checkpoint does */
} mortise_weight_cache_args;

typedef struct mortise_weight_cache_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Returns 1 if the device's options ask for a file, else 0; the host then does not call open. [any] since 0.1 */
  int32_t (*enabled)(mortise_device* device);

  /* Starts to use the checkpoint's file: weights prepared until close belong to it. A file that cannot be used is not a
   * failure. [control] since 0.1 */
  mortise_status (*open)(mortise_device* device, const mortise_weight_cache_args* args, mortise_error* error);

  /* Ends the use of the file. `loaded` is 1 if the model loaded without failure; the device then writes the file if it
   * lacks any weight that was prepared. If it cannot write, it logs that. Prepared weights stay valid.
   * [control] since 0.1 */
  void (*close)(mortise_device* device, int32_t loaded);
} mortise_weight_cache_table;

#endif
