/* mortise/tensor.h: a strided array in host or device memory, always borrowed for the call that it is passed to.
 * The dtype codes are DLPack's (dlpack.h, DLDataTypeCode), so that conversion to and from a DLTensor copies fields. */
#ifndef MORTISE_TENSOR_H
#define MORTISE_TENSOR_H

#include "mortise/abi.h"

/* dtype = DLPack code << 8 | bits. */
enum {
  MORTISE_I8 = 0 << 8 | 8,
  MORTISE_I32 = 0 << 8 | 32,
  MORTISE_I64 = 0 << 8 | 64,
  MORTISE_U8 = 1 << 8 | 8,
  MORTISE_U32 = 1 << 8 | 32,
  MORTISE_F16 = 2 << 8 | 16,
  MORTISE_F32 = 2 << 8 | 32,
  MORTISE_BF16 = 4 << 8 | 16
};

enum { MORTISE_TENSOR_READ_ONLY = 1 }; /* mortise_tensor.flags: writing is a fault (a mapped file) */

typedef struct mortise_tensor {
  uint32_t struct_size;
  uint32_t flags;
  void* data;        /* host or device address, as the function that takes the tensor says */
  int32_t dtype;     /* MORTISE_BF16 ... */
  int32_t ndim;      /* 1 to 4 */
  int64_t shape[4];  /* elements; entries from ndim on are 1 */
  int64_t stride[4]; /* elements, not bytes; the last stride is 1 unless a function says that it takes others */
  uint64_t bytes;    /* readable (writable) bytes from data on */
} mortise_tensor;

#endif
