// plugins/kernels/cpu/linear_int/pack.hpp: quantises float weights, and packs quantised weights for the linear_int
// kernels. All instruction sets read the same order. A panel is 16 columns of the product (rows of w):
//   values, 8 bits  [ceil(N/16)][ceil(K/32)][8 quads of k][16 n][4 k]          a byte each: 64-deep, an AMX B tile
//   values, 4 bits  [ceil(N/16)][ceil(K/32)][4 octets of k][16 n][4 bytes]     byte i: k = i low, k = 4 + i high
//   scales          f32 [ceil(N/16)][groups][16 n]
//   zeros           u8  [ceil(N/16)][groups][16 n]
// Elements beyond N and K are zero.
// Order of quantize_row: maxima have none; each division, product and rounding is one operation.
// Cost: memory bound, reads each row once or twice.
// Errors: none. Source: rounding to the nearest in groups is the baseline of GPTQ, arXiv:2210.17323.
// Oracle: reference/linear_int.hpp, bitwise (linear_int/pack_test.cpp).
#pragma once

#include "kernels/cpu/linear/pack.hpp"
#include "kernels/cpu/linear_int/linear_int.hpp"

namespace mortise::cpu {

// The number of groups in a row of k elements; the last group may be shorter.
constexpr std::size_t groups_of(std::size_t k, std::size_t group_size) {
  return group_size >= k ? 1 : (k + group_size - 1) / group_size;
}
std::size_t packed_bytes_int(std::size_t n, std::size_t k, int bits);  // of the values

// Packs the values of one panel: 16 rows of k bytes each, values 0 .. 2^bits - 1. A null row is zeros.
void pack_panel_int(const std::uint8_t* const (&rows)[kPanelColumns], std::size_t k, int bits, std::uint8_t* panel);

// Quantises a row of k weights (docs/numerics.md, "Quantised linear"): values [k], scales and zeros [groups_of(k,
// group_size)], each group alone:
//   8 bits:  scale = a / 127, zero = 128, value = nearest(w * (127 / a)) + 128,  a = max |w|
//   4 bits:  scale = range / 15, zero = nearest(-low * (15 / range)), value = nearest(w * (15 / range)) + zero,
//            range = max(0, max w) - low,  low = min(0, min w)
// REQUIRES: DenormalsOff.
void quantize_row(const float* w, std::size_t k, const IntFormat& format, std::uint8_t* values, float* scales,
                  std::uint8_t* zeros);

}  // namespace mortise::cpu
