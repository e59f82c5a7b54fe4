// plugins/kernels/cpu/linear_block32/pack.hpp: quantises float weights for linear_block32, and packs the scales and
// minima of weights. Values are packed by linear_int/pack.hpp; all instruction sets read the same order:
//   scales, minima  f16 or f32 [ceil(N/16)][groups][16 n], zeros beyond N
// Order of quantize_row_block32: minima and maxima have none; each difference, quotient, product and rounding is one
// operation.
// Cost: memory bound, reads each row twice.
// Errors: pack_factors says if a number does not fit.
// Source: the rounding of llama.cpp's Q8_0 and Q4_1 (ggml/src/ggml-quants.c).
// Oracle: reference/linear_block32.hpp, bitwise (linear_block32/pack_test.cpp).
#pragma once

#include "kernels/cpu/linear_block32/linear_block32.hpp"
#include "kernels/cpu/linear_int/pack.hpp"

namespace mortise::cpu {

// Bytes of the packed scales of n rows with `groups` groups each; of their minima, too.
std::size_t packed_factor_bytes(std::size_t n, std::size_t groups, bool half);

// Packs the scales or minima of one panel: 16 rows with `groups` numbers each, `stride` numbers apart in a row. A null
// row is zeros. With `half` each number must be exact in f16: returns false if one is not. NaN is.
bool pack_factors(const float* const (&rows)[kPanelColumns], std::size_t groups, std::size_t stride, bool half,
                  void* panel);

// Quantises a row of k weights (docs/numerics.md, "Quantised linear in blocks of 32"): values [k], factors [groups],
// or, with 4 bits, [groups][2] scales and minima. All factors are exact in f16. `format` is format_of_floats(bits).
void quantize_row_block32(const float* w, std::size_t k, const Block32Format& format, std::uint8_t* values,
                          float* factors);

// The format that float weights are made: 8 bits with zero point 128, 4 bits with minima; groups of 32.
constexpr Block32Format format_of_floats(int bits) {
  return {bits, kBlock32, bits == 8 ? 128 : 0, bits == 4, true};
}

}  // namespace mortise::cpu
