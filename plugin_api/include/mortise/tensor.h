/* mortise/tensor.h: a strided array in host or device memory. The memory is borrowed for the call.
 * The dtype codes are DLPack's (dlpack.h, DLDataTypeCode), so conversion to and from a DLTensor only copies fields. */
#ifndef MORTISE_TENSOR_H
#define MORTISE_TENSOR_H

#include "mortise/abi.h"

/* dtype = DLPack code << 8 | bits. */
enum {
  MORTISE_I8 = 0 << 8 | 8,
  MORTISE_I32 = 0 << 8 | 32,
  MORTISE_I64 = 0 << 8 | 64,
  MORTISE_U8 = 1 << 8 | 8,
  MORTISE_U32 = 1 << 8 | 32, /* DRAFT: no argument of a function has it yet */
  MORTISE_F16 = 2 << 8 | 16,
  MORTISE_F32 = 2 << 8 | 32,
  MORTISE_BF16 = 4 << 8 | 16,
  MORTISE_F8_E4M3 = 10 << 8 | 8, /* 4 bits of exponent, 3 of mantissa, no infinity; weights and KV caches. Since 0.6 */
  MORTISE_F4_E2M1 = 17 << 8 | 4, /* 2 bits of exponent, 1 of mantissa; weights in MXFP4, never a tensor. Since 0.6 */
  /* Integer weights for activations in int8 with a scale for each 32 columns: a value_type, never a tensor. Its code is
   * none of DLPack's. Since 0.6 */
  MORTISE_I8_BLOCK32 = 256 << 8 | 8
};

enum { MORTISE_TENSOR_READ_ONLY = 1 }; /* mortise_tensor.flags: writing may crash, as in a mapped file */

typedef struct mortise_tensor {
  uint32_t struct_size;
  uint32_t flags;
  void* data;        /* host or device address; the function that takes the tensor says which */
  int32_t dtype;     /* MORTISE_I8 ... MORTISE_BF16 */
  int32_t ndim;      /* 1 to 4 */
  int64_t shape[4];  /* in elements; entries from ndim on are 1 */
  int64_t stride[4]; /* in elements; the last one is 1 unless the function accepts others */
  uint64_t bytes;    /* accessible bytes, starting at data */
} mortise_tensor;

#endif
