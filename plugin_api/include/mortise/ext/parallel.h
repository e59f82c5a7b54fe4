/* mortise/ext/parallel.h: the thread pool of a device that computes on the host. CPU attention and proposers
 * run on it; a plugin creates no threads of its own. From the device's get_ext(MORTISE_EXT_PARALLEL). */
#ifndef MORTISE_EXT_PARALLEL_H
#define MORTISE_EXT_PARALLEL_H

#include "mortise/device.h"

#define MORTISE_EXT_PARALLEL "mortise.device.parallel/1"

/* Does one task; must not throw. `thread` is 0 .. num_threads - 1, and differs between tasks that run at the same time,
 * so it can index scratch memory. [any] since 0.1 */
typedef void (*mortise_task)(void* context, int32_t task, int32_t thread);

typedef struct mortise_parallel_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Returns the number of threads that run tasks, the caller of `run` included. [any] since 0.1 */
  int32_t (*num_threads)(mortise_device* device);

  /* Runs task(context, i, thread) for 0 <= i < num_tasks, on the pool and on the calling thread, and returns when all
   * are done. Tasks run with denormals flushed to zero, and must not call run. [step] since 0.1 */
  void (*run)(mortise_device* device, int32_t num_tasks, mortise_task task, void* context);

  /* Returns the instruction set that kernels should use: "amx", "avx512", "avx2" or "portable"; static.
   * [any] since 0.1 */
  const char* (*isa)(mortise_device* device);
} mortise_parallel_table;

#endif
