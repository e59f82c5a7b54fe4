/* mortise/ext/sequences.h: of how many sequences an instance keeps something. From a component's
 * get_ext(MORTISE_EXT_SEQUENCES). Whoever keeps state by sequence and has this can be checked for leaks: when every
 * sequence has ended and the ends have been told, the number is 0. */
#ifndef MORTISE_EXT_SEQUENCES_H
#define MORTISE_EXT_SEQUENCES_H

#include "mortise/abi.h"

#define MORTISE_EXT_SEQUENCES "mortise.sequences/1"

typedef struct mortise_sequences_table {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t (*num_sequences)(void* instance); /* [step & active] since 0.3 */
} mortise_sequences_table;

#endif
