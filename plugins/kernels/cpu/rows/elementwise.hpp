// elementwise.hpp: sums, scaling, conversions, rows taken from a table.
// n counts elements. `out` may be an input; otherwise they do not overlap.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

struct ElementwiseKernels {
  // out[i] = a[i] + b[i], rounded once to the type.
  void (*add_bf16)(const Bf16* a, const Bf16* b, Bf16* out, std::size_t n);
  void (*add_f32)(const float* a, const float* b, float* out, std::size_t n);
  // out[i] = a[i] * s, rounded to f32, then to the type.
  void (*scale_bf16)(const Bf16* a, float s, Bf16* out, std::size_t n);
  void (*scale_f32)(const float* a, float s, float* out, std::size_t n);
  // Exact, but for NaN, which becomes the canonical one; f16 denormals are exact too.
  void (*bf16_to_f32)(const Bf16* in, float* out, std::size_t n);
  void (*f16_to_f32)(const F16* in, float* out, std::size_t n);
  // To the nearest, ties to even; beyond the range to infinity.
  void (*f32_to_bf16)(const float* in, Bf16* out, std::size_t n);
  // Row r of out is row ids[r] of table; rows have `row_bytes` bytes and lie one after the other in both. The
  // embedding. REQUIRES: every id is a row of the table.
  void (*gather_rows)(const void* table, std::size_t row_bytes, const std::int32_t* ids, std::size_t num_rows,
                      void* out);
};

}  // namespace mortise::cpu
