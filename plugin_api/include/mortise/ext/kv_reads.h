/* mortise/ext/kv_reads.h: how many bytes of KV an attention reads, so that benchmarks can report them. From the
 * attention's get_ext(MORTISE_EXT_KV_READS). */
#ifndef MORTISE_EXT_KV_READS_H
#define MORTISE_EXT_KV_READS_H

#include "mortise/attention.h"

#define MORTISE_EXT_KV_READS "mortise.attention.kv_reads/1"

typedef struct mortise_kv_reads_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Returns the bytes of K and V that `run` reads in this layer for the step that was planned last. Bytes that several
   * thread blocks or tasks read count once for each of them, even if a cache supplies them. 0 before the first plan.
   * [step & active] since 0.4 */
  uint64_t (*kv_bytes)(mortise_attention* attention, int32_t layer);
} mortise_kv_reads_table;

#endif
