// plugins/kernels/cpu/linear_mxfp4/linear_mxfp4.hpp: y = x w^T + bias with MXFP4 weights, which have the bits of
// linear/linear.hpp with the widened weights (classes cpu-bf16/1, cpu-bf16-pairs/1 and cpu-f32/1).
//   y[m,n] = round(sum_k x[m,k] w[n,k] (+ bias[n])),  w[n,k] = value[n,k] * 2^(exponent[n,g] - 127),  g = floor(k / 32)
//
//   x          bf16 or f32 [M, K], rows x_stride elements apart
//   w          E2M1 [N, K], packed as 4-bit values are (linear_int/pack.hpp)
//   exponents  u8 [ceil(N/16)][ceil(K/32)][16], at most 252
//   bias       f32 [N], may be null
//   y          bf16 or f32 [M, N], rows y_stride elements apart
//
// Order: w is widened, which is exact, and multiplied in the order of linear/linear.hpp, depth tiles or pairs.
// Cost: memory bound for few rows; four depth tiles of a panel are widened once for up to 240 rows.
// Errors: none; the caller checks shapes and exponents.
// Source: OCP Microscaling Formats (MX) Specification 1.0, MXFP4. Oracle: reference/linear_mxfp4.hpp with
// reference/linear.hpp, bitwise (linear_mxfp4_test.cpp).
#pragma once

#include "kernels/cpu/linear/linear.hpp"

namespace mortise::cpu {

constexpr std::size_t kMxfp4GroupColumns = 32;

// w: packed values. `gate` is not used.
struct LinearMxfp4Args : LinearArgs {
  const std::uint8_t* exponents;
};

// `prepare` and ranges as in LinearKernel.
struct LinearMxfp4Kernel {
  std::size_t (*scratch_bytes)(std::size_t m, std::size_t k);  // 0: there is nothing to prepare
  void (*prepare)(const LinearArgs& args, std::size_t m0, std::size_t m1);
  void (*run)(const LinearMxfp4Args& args, const LinearRange& range);
};

}  // namespace mortise::cpu
