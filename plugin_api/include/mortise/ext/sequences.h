/* mortise/ext/sequences.h: how many sequences an instance keeps state for. From a component's
 * get_ext(MORTISE_EXT_SEQUENCES). Tests use it to find leaks: when the instance has been told that every sequence has
 * ended, the number must be 0. */
#ifndef MORTISE_EXT_SEQUENCES_H
#define MORTISE_EXT_SEQUENCES_H

#include "mortise/abi.h"

#define MORTISE_EXT_SEQUENCES "mortise.sequences/1"

typedef struct mortise_sequences_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Returns the number of sequences that the instance keeps state for. [step & active] since 0.3 */
  uint64_t (*num_sequences)(void* instance);
} mortise_sequences_table;

#endif
