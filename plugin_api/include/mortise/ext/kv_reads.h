/* mortise/ext/kv_reads.h: what an attention's plan reads. From an attention's get_ext(MORTISE_EXT_KV_READS). For
 * benchmarks: with it a figure stands beside the bytes that were moved for it, counted and not assumed. */
#ifndef MORTISE_EXT_KV_READS_H
#define MORTISE_EXT_KV_READS_H

#include "mortise/attention.h"

#define MORTISE_EXT_KV_READS "mortise.attention.kv_reads/1"

typedef struct mortise_kv_reads_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Bytes of K and V that `run` of a layer reads for the step that was planned last: each as often as a unit of work
   * reads it, whichever cache it comes from. 0 before the first plan. [step & active] since 0.4 */
  uint64_t (*kv_bytes)(mortise_attention* attention, int32_t layer);
} mortise_kv_reads_table;

#endif
