// plugins/kernels/cpu/rows/elementwise.hpp: sums, scaling, conversions and copies of table rows. Arrays have n
// elements; `out` may be an input, but they do not overlap otherwise.
// Equations: at each function. Shapes: contiguous arrays, any n, any address that the type allows.
// Order: per element, one rounding each unless a function says more.
// Cost: memory bound. Errors: none. Source: IEEE 754 conversions, round to nearest even.
// Oracle: scalar loops over reference/scalar.hpp, bitwise (rows/elementwise_test.cpp).
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
  // Exact, f16 denormals included. NaN becomes the canonical NaN.
  void (*bf16_to_f32)(const Bf16* in, float* out, std::size_t n);
  void (*f16_to_f32)(const F16* in, float* out, std::size_t n);
  // To the nearest, ties to even; too large values become infinity.
  void (*f32_to_bf16)(const float* in, Bf16* out, std::size_t n);
  // Embedding: row r of out is row ids[r] of table. Rows have `row_bytes` bytes and are contiguous in both. REQUIRES:
  // every id is a row of the table.
  void (*gather_rows)(const void* table, std::size_t row_bytes, const std::int32_t* ids, std::size_t num_rows,
                      void* out);
};

}  // namespace mortise::cpu
