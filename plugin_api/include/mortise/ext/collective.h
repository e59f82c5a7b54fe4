/* mortise/ext/collective.h: a device that is made of several, such as the GPUs of a host. Each of them, a rank, has an
 * instance of the device's component, and a thread of the host runs its steps. A model is cut by the columns of its
 * outputs alone: a rank computes some columns of a product over all of K, and all ranks exchange their columns before
 * an operation that reads whole rows. So no sum is cut, and the bits are those of one device, whatever the number of
 * ranks. From the device's get_ext(MORTISE_EXT_COLLECTIVE). Since 0.6 */
#ifndef MORTISE_EXT_COLLECTIVE_H
#define MORTISE_EXT_COLLECTIVE_H

#include "mortise/model.h"

#define MORTISE_EXT_COLLECTIVE "mortise.device.collective/2"

typedef struct mortise_collective_table {
  uint32_t struct_size;
  uint32_t flags;

  /* Returns how many ranks the options of `device` ask for, at least 1. If there are more, the host destroys `device`
   * and creates an instance for each rank from the same options, with rank and world in mortise_create_args.
   * [any & created] since 0.6 */
  int32_t (*num_ranks)(mortise_device* device);

  /* Connects `devices`, one for each rank, all active and of this component, and writes one communicator for each rank
   * to communicators [world]. The host destroys them before the devices. FAILED_PRECONDITION if two devices cannot
   * reach each other. The host may connect devices more than once. [control & active] since 0.6 */
  mortise_status (*create)(mortise_device* const* devices, int32_t world, mortise_communicator** communicators,
                           mortise_error* error);

  /* Destroys the communicator of one rank; ignores NULL. No call uses it. [control] since 0.6 */
  void (*destroy)(mortise_communicator* communicator);

  /* Completes the rows of `x` [M, N], which may be strided: rank r has columns columns[r] .. columns[r + 1] - 1 of its
   * own x, and all ranks get them from it, bit for bit. columns [world + 1] ascends from 0 to N, and M, columns and the
   * type of x are the same on all ranks. Each rank calls it on its own stream, in the same order. A rank does not
   * return, or its stream does not go on, before it has all columns. What the rank queues afterwards may overwrite x at
   * once: the device sees to it that the other ranks get the columns that were there. CANCELLED: abort was called.
   * UNAVAILABLE: a rank did not come within the device's time limit; the message has its number. On a device whose
   * streams are not synchronous, stream_synchronize returns these two. [step] since 0.6 */
  mortise_status (*all_gather)(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                               const int64_t* columns, mortise_error* error);

  /* Ends running and later calls with these communicators on all ranks, because a rank has failed. After that they can
   * only be destroyed. [any] since 0.6 */
  void (*abort)(mortise_communicator* communicator);
} mortise_collective_table;

#endif
