// plugins/kernels/cpu/linear_fp8/linear_fp8.hpp: y = x w^T + bias with E4M3 weights, numerics class cpu-fp8/1.
//   y[m,n] = round(sum_g d[m,n,g] * scale[n,g] (+ bias[n])),  d[m,n,g]: the sum of x[m,k] w[n,k] over the k of group g
//
//   x     bf16 or f32 [M, K], rows x_stride elements apart
//   w     E4M3 [N, K], packed as 8-bit values are (linear_int/pack.hpp), and scales f32 [ceil(N/16)][groups][16]
//   bias  f32 [N], may be null
//   y     bf16 or f32 [M, N], rows y_stride elements apart
//
// Order: w is widened, which is exact, and multiplied in the depth tiles of linear/linear.hpp. A group is
// kFp8GroupColumns columns, or all of K; d is the sum of its depth tiles, from 0. Then acc = fma(d, scale, acc), groups
// ascending, from 0; one addition of the bias, and one rounding to the type of y. K is never split.
//
// Cost: memory bound for few rows; a group of a panel is widened once for up to 240 rows.
// Errors: none; the caller checks shapes, and that no weight is NaN.
// Source: E4M3 of the OCP 8-bit Floating Point Specification. Oracle: reference/linear_fp8.hpp, bitwise
// (linear_fp8_test.cpp), which is itself compared with a double loop.
#pragma once

#include "kernels/cpu/linear/linear.hpp"

namespace mortise::cpu {

constexpr std::size_t kFp8GroupColumns = 128;

// w: packed values. `gate` is not used.
struct LinearFp8Args : LinearArgs {
  const float* scales;
  std::size_t group_size;  // kFp8GroupColumns, or at least k
};

// `prepare` and ranges as in LinearKernel.
struct LinearFp8Kernel {
  std::size_t (*scratch_bytes)(std::size_t m, std::size_t k);  // 0: there is nothing to prepare
  void (*prepare)(const LinearArgs& args, std::size_t m0, std::size_t m1);
  void (*run)(const LinearFp8Args& args, const LinearRange& range);
};

}  // namespace mortise::cpu
