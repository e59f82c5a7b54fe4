/* mortise/ext/parallel.h: the one thread pool of the process, offered by devices that compute on the host. CPU
 * attention and proposers run on it; a plugin makes no threads of its own. From the device's
 * get_ext(MORTISE_EXT_PARALLEL). */
#ifndef MORTISE_EXT_PARALLEL_H
#define MORTISE_EXT_PARALLEL_H

#include "mortise/device.h"

#define MORTISE_EXT_PARALLEL "mortise.device.parallel/1"

/* `thread` is 0 .. num_threads - 1 and unique among the tasks that run at the same time: index for per-thread scratch.
 */
typedef void (*mortise_task)(void* context, int32_t task, int32_t thread);

typedef struct mortise_parallel_table {
  uint32_t struct_size;
  uint32_t flags;
  /* [any] since 0.1 */
  int32_t (*num_threads)(mortise_device* device);
  /* Runs task(context, i, thread) for 0 <= i < num_tasks, the caller's thread included, and returns when all are done.
   * Tasks run with denormals flushed to zero. Tasks must not call run. [step] since 0.1 */
  void (*run)(mortise_device* device, int32_t num_tasks, mortise_task task, void* context);
  /* The instruction set that kernels are to use: "amx", "avx512", "avx2" or "portable". Static. [any] since 0.1 */
  const char* (*isa)(mortise_device* device);
} mortise_parallel_table;

#endif
