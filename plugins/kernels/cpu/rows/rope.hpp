// rope.hpp: rotary position embedding, in place.
//   x0' = x0 cos - x1 sin,  x1' = x1 cos + x0 sin
//   each: product, product, sum in f32 (no fma), rounded once to the type
// for the pairs (x[i], x[i + rotary_dim / 2]), or interleaved (x[2 i], x[2 i + 1]), 0 <= i < rotary_dim / 2. Elements
// from rotary_dim on stay as they are. Source: arXiv:2104.09864.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

struct RopeKernels {
  // x: `num_heads` heads of one row, `head_stride` elements apart; cos and sin: the table's row of the row's position.
  // REQUIRES: rotary_dim even and at most the head's size.
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
