// plugins/kernels/cpu/linear_int/linear_int.hpp: y = x w^T + bias with quantised weights, numerics class cpu-int8/1.
//
//   w[n,j] = scale[n,g] * (value[n,j] - zero[n,g]),  g = j / group_size;  value in 0 .. 2^bits - 1, bits 4 or 8
//   x     bf16 or f32 [M, K]   rows x_stride elements apart; column j of w multiplies x[order[j]]
//   y     bf16 or f32 [M, N]   rows y_stride elements apart
//   w     packed by linear_int/pack.hpp; bias f32 [N], may be null
//
// Order (docs/numerics.md, "Quantised linear"): each row of x becomes int8 q with one scale sx[m]. Each group gives an
// exact integer
//   dot[m,n,g] = sum_j q[m,j] (value[n,j] - zero[n,g]);  then in f32
//   acc = 0; for g ascending: acc = acc + f32(dot[m,n,g]) * scale[n,g];  y = acc * sx[m] (+ bias[n])
// Integers may be added in any order, as long as no sum saturates or wraps.
//
// Cost: memory bound for few rows (reads 4 or 8 bits per weight and 5 bytes per group once per call and range), compute
// bound for many.
// Errors: none; the caller checks shapes.
// Source: GPTQ, arXiv:2210.17323, and AWQ, arXiv:2306.00978 (formats of 4-bit checkpoints).
// Oracle: reference/linear_int.hpp, bitwise (linear_int_test.cpp, amx_test.cpp).
#pragma once

#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// The longest group: 2 * 255 * 127 * 2^15 < 2^31, so no sum of a group wraps.
constexpr std::size_t kMaxGroup = 32768;

// The format of a quantised weight. REQUIRES: bits 4 or 8; group_size a multiple of 32, or at least k (one group a
// row); group_size or k is at most kMaxGroup.
struct IntFormat {
  int bits;
  std::size_t group_size;
};

struct LinearIntArgs {
  const void* x;
  std::size_t x_stride;
  const std::int32_t* order;  // [K]; null: 0, 1, 2, ..
  IntFormat format;
  const std::uint8_t* values;  // packed by linear_int/pack.hpp, as are scales and zeros
  const float* scales;
  const std::uint8_t* zeros;
  const float* bias;  // f32 [N], may be null
  void* y;
  std::size_t y_stride;
  std::size_t m, n, k;
  void* scratch;    // scratch_bytes(m, k, group_size), 64-byte aligned; prepared for all rows of the range
  Activation gate;  // for gated_to_bf16 only
};

// Like LinearKernel, with the same ranges. `prepare` quantises the rows [m0, m1) of x into the scratch; `run` computes
// a range from it.
struct LinearIntKernels {
  std::size_t (*scratch_bytes)(std::size_t m, std::size_t k, std::size_t group_size);
  void (*prepare_bf16)(const LinearIntArgs& args, std::size_t m0, std::size_t m1);
  void (*prepare_f32)(const LinearIntArgs& args, std::size_t m0, std::size_t m1);
  void (*to_bf16)(const LinearIntArgs& args, const LinearRange& range);
  void (*to_f32)(const LinearIntArgs& args, const LinearRange& range);
  // Like LinearKernel::run_gated, for products that can_gate accepts. Both are null if it would not be faster.
  bool (*can_gate)(const LinearIntArgs& args);
  void (*gated_to_bf16)(const LinearIntArgs& args, const LinearRange& range);
};

}  // namespace mortise::cpu
