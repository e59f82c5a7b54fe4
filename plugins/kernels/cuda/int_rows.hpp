// plugins/kernels/cuda/int_rows.hpp: quantises rows of x to signed bytes with one scale per row, for products with
// quantised weights (docs/numerics.md, "Quantised linear", Activations).
//   q[m,j] = nearest(x[m,order[j]] * (127 / a)),  sx[m] = a / 127,  a = max_j |x[m,j]|
//   x     as in LinearIntArgs
//   q     i8 [m][k padded to whole chunks], zeros past k
//   sums  i32 [groups][rows_padded], sums of q by group
// Order: maxima and integer sums have none; each division, product and rounding is one operation.
// Cost: reads x twice, the second time from the caches.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: int8 with one scale per token, LLM.int8(), arXiv:2208.07339.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise, through the products
// (tests/plugins/devices/cuda/int_weights_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

struct IntRows {
  char* q;
  float* scales;
  std::int32_t* sums;  // null: not computed
  std::int64_t row_bytes, rows_padded;
};

constexpr std::int64_t kIntRowsPadded = 256;  // arrays of rows are padded to it: tiles read beyond the last row

// Returns the bytes of the workspace for the quantised rows. With `sums` it has room for the sums of q by group, which
// weights with zero points need unless their kernel adds up q itself.
std::uint64_t int_rows_bytes(const LinearIntArgs& args, bool sums);
// Divides a workspace of that size, which must be 256-byte aligned, into the arrays of IntRows.
IntRows int_rows_in(void* workspace, const LinearIntArgs& args, bool sums);
cudaError_t launch_quantize_rows(const LinearIntArgs& args, const IntRows& to, cudaStream_t stream);

}  // namespace mortise::cuda
