// plugins/kernels/cpu/linear_block32/linear_block32.hpp: y = x w^T + bias with quantised weights and one activation
// scale for each 32 columns, numerics class cpu-int8-block32/1.
//
//   w[n,j] = scale[n,g] * (value[n,j] - zero) + minimum[n,g],  g = j / group_size;  value in 0 .. 2^bits - 1
//   x     bf16 or f32 [M, K]   rows x_stride elements apart
//   y     bf16 or f32 [M, N]   rows y_stride elements apart
//   w     packed by linear_block32/pack.hpp; bias f32 [N], may be null
//
// Order (docs/numerics.md, "Quantised linear in blocks of 32"): each block of 32 columns of a row becomes int8 q with a
// scale sx. A part p is 32 columns, or 16 if groups have 16; b is its block:
//   dot[m,n,p] = sum_j q[m,j] (value[n,j] - zero), an exact integer;  sum[m,p] = sum_j q[m,j]
//   acc = 0; for p ascending: acc = fma(f32(dot[m,n,p]), scale[n,g] * sx[m,b], acc)
//                             acc = fma(minimum[n,g], sx[m,b] * f32(sum[m,p]), acc)    only if w has minima
//   y = acc (+ bias[n])
//
// Cost: memory bound for few rows (reads 4 or 8 bits per weight, and 2 or 4 bytes per scale and per minimum, once per
// call and range), compute bound for many.
// Errors: none; the caller checks shapes.
// Source: the blocks of GGUF's Q4_0, Q4_1, Q8_0 and Q4_K times Q8_0 (github.com/ggml-org/llama.cpp, ggml/src/ggml-cpu).
// Oracle: reference/linear_block32.hpp, bitwise (linear_block32_test.cpp).
#pragma once

#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

constexpr std::size_t kBlock32 = 32;  // columns of x that share a scale

// The format of a weight. REQUIRES: bits 4 or 8; group_size 16, a multiple of 32, or at least k (one group a row).
struct Block32Format {
  int bits;
  std::size_t group_size;
  std::int32_t zero;  // 0 .. 255, of all groups
  bool has_minima;
  bool half_scales;  // scales and minima are stored as f16, else as f32
};

struct LinearBlock32Args {
  const void* x;
  std::size_t x_stride;
  Block32Format format;
  const std::uint8_t* values;  // packed by linear_int/pack.hpp
  const void* scales;          // packed by linear_block32/pack.hpp, as are minima
  const void* minima;          // null if the format has none
  const float* bias;           // f32 [N], may be null
  void* y;
  std::size_t y_stride;
  std::size_t m, n, k;
  void* scratch;  // scratch_bytes(m, k), 64-byte aligned; prepared for all rows of the range
};

// Like LinearKernel, with the same ranges. `prepare` quantises the rows [m0, m1) of x into the scratch; `run` computes
// a range from it.
struct LinearBlock32Kernels {
  std::size_t (*scratch_bytes)(std::size_t m, std::size_t k);
  void (*prepare_bf16)(const LinearBlock32Args& args, std::size_t m0, std::size_t m1);
  void (*prepare_f32)(const LinearBlock32Args& args, std::size_t m0, std::size_t m1);
  void (*to_bf16)(const LinearBlock32Args& args, const LinearRange& range);
  void (*to_f32)(const LinearBlock32Args& args, const LinearRange& range);
};

}  // namespace mortise::cpu
