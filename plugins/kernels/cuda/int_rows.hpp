// int_rows.hpp: rows of x as signed bytes with one scale each, for the kernels that multiply by quantised weights.
//   q[m,j] = nearest(x[m,order[j]] * (127 / a)),  sx[m] = a / 127,  a = max_j |x[m,j]|     docs/numerics.md,
//   Activations
// Shapes: LinearIntArgs; q [m][k up to whole chunks], zeros behind k; sums of q by group [groups][rows_padded].
// Order: maxima and integer sums have none; each division, product and rounding is an operation of its own.
// Cost: x twice, the second time from the caches. Launches on `stream`, never waits, allocates nothing.
// Oracle: kernels/cpu/reference/linear_int.hpp, bitwise (through the products).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/int_weight.hpp"

namespace mortise::cuda {

struct IntRows {
  char* q;
  float* scales;
  std::int32_t* sums;  // null: not wanted
  std::int64_t row_bytes, rows_padded;
};

constexpr std::int64_t kIntRowsPadded = 256;  // arrays of rows end at a multiple of it: tiles read beyond the last row

// Sums of q are wanted for 8-bit weights with zero points by linear_int_wide.
std::uint64_t int_rows_bytes(const LinearIntArgs& args, bool sums);
// Where they lie in a workspace of so many bytes, 256-byte aligned.
IntRows int_rows_in(void* workspace, const LinearIntArgs& args, bool sums);
cudaError_t launch_quantise_rows(const LinearIntArgs& args, const IntRows& to, cudaStream_t stream);

}  // namespace mortise::cuda
