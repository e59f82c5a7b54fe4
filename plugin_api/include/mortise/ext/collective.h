/* mortise/ext/collective.h: exchange between the shards of a tensor-parallel pipeline. Sums add in rank order, so that
 * the bits depend on the parallel size only. */
#ifndef MORTISE_EXT_COLLECTIVE_H
#define MORTISE_EXT_COLLECTIVE_H

#include "mortise/model.h"

#define MORTISE_EXT_COLLECTIVE "mortise.device.collective/1"

typedef struct mortise_collective_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Joins `devices` (one a rank, opened by this component) into communicators, one a rank. [control] since 0.1 */
  mortise_status (*create)(mortise_device* const* devices, int32_t world, mortise_communicator** communicators,
                           mortise_error* error);
  void (*destroy)(mortise_communicator* communicator); /* [control] since 0.1 */
  /* x := x of rank 0 + x of rank 1 + ... in that order, the same on every rank. [step] since 0.1 */
  mortise_status (*all_reduce)(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                               mortise_error* error);
  /* out[rank, ...] := x of that rank. [step] since 0.1 */
  mortise_status (*all_gather)(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                               const mortise_tensor* out, mortise_error* error);
} mortise_collective_table;

#endif
