/* mortise/ext/collective.h: data exchange between the shards of a tensor-parallel pipeline. Sums are taken in rank
 * order, so the bits depend on the number of shards only. From the device's get_ext(MORTISE_EXT_COLLECTIVE).
 *
 * DRAFT: no device offers it yet. It may change in any version. */
#ifndef MORTISE_EXT_COLLECTIVE_H
#define MORTISE_EXT_COLLECTIVE_H

#include "mortise/model.h"

#define MORTISE_EXT_COLLECTIVE "mortise.device.collective/1"

typedef struct mortise_collective_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Connects `devices`, one per rank and all opened by this component, and writes one communicator per rank to
   * communicators [world]. The caller destroys them. FAILED_PRECONDITION if two devices cannot reach each other.
   * [control] since 0.1 */
  mortise_status (*create)(mortise_device* const* devices, int32_t world, mortise_communicator** communicators,
                           mortise_error* error);

  /* Destroys the communicator of one rank. [control] since 0.1 */
  void (*destroy)(mortise_communicator* communicator);

  /* Replaces x on every rank by x of rank 0 + x of rank 1 + ..., added in that order. Each rank calls it, on its own
   * stream. INVALID_ARGUMENT for a type that cannot be added. [step] since 0.1 */
  mortise_status (*all_reduce)(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                               mortise_error* error);

  /* Writes x of each rank to out[rank, ...], on every rank. Each rank calls it, on its own stream. INVALID_ARGUMENT if
   * `out` is not world times as large as x. [step] since 0.1 */
  mortise_status (*all_gather)(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                               const mortise_tensor* out, mortise_error* error);
} mortise_collective_table;

#endif
