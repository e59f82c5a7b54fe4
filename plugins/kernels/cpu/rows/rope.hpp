// plugins/kernels/cpu/rows/rope.hpp: rotary position embedding, in place.
//   x0' = x0 cos - x1 sin,  x1' = x1 cos + x0 sin
// for the pairs (x[i], x[i + rotary_dim / 2]), or interleaved (x[2 i], x[2 i + 1]), 0 <= i < rotary_dim / 2. Elements
// from rotary_dim on keep their values.
//   x         bf16 or f32 [num_heads, head_dim]   one row; heads head_stride elements apart
//   cos, sin  f32 [rotary_dim / 2]                the table's row of the position
// Order: product, product, sum in f32 (no fma), then one rounding to the type.
// Cost: memory bound.
// Errors: none. Source: arXiv:2104.09864. Oracle: reference/rope.hpp, bitwise (rope_test.cpp).
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

struct RopeKernels {
  // REQUIRES: rotary_dim is even and at most head_dim.
  void (*rotate_bf16)(Bf16* x, std::size_t num_heads, std::ptrdiff_t head_stride, const float* cos, const float* sin,
                      std::size_t rotary_dim);
  void (*rotate_f32)(float* x, std::size_t num_heads, std::ptrdiff_t head_stride, const float* cos, const float* sin,
                     std::size_t rotary_dim);
  void (*rotate_interleaved_bf16)(Bf16* x, std::size_t num_heads, std::ptrdiff_t head_stride, const float* cos,
                                  const float* sin, std::size_t rotary_dim);
  void (*rotate_interleaved_f32)(float* x, std::size_t num_heads, std::ptrdiff_t head_stride, const float* cos,
                                 const float* sin, std::size_t rotary_dim);
};

}  // namespace mortise::cpu
