// plugins/kernels/cpu/linear_int/step.hpp: products of int8 rows and packed weights over 32 or 16 neighbouring k, in
// registers. Used by linear_int and linear_block32, which share the order of the values (linear_int/pack.hpp).
#pragma once

#include "kernels/cpu/linear_int/dot.hpp"
#include "kernels/cpu/linear_int/rows.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// Bytes of 16 columns x kIntStep k of weights.
template <int bits>
constexpr std::size_t kStepBytes = kLanes* kIntStep* bits / 8;

MORTISE_INLINE I32x16 broadcast_quad(const std::int8_t* x) {
  std::int32_t quad;
  std::memcpy(&quad, x, sizeof quad);
  return broadcast_i32(quad);
}

MORTISE_INLINE I32x16 load_line(const std::uint8_t* p) {
  return load_i32(reinterpret_cast<const std::int32_t*>(p));
}

// partial[i][j] += 4 k of row i of x times the weights w[j].
template <int bits, std::size_t rows, std::size_t panels>
MORTISE_INLINE void multiply_quad(const std::int8_t* x, std::size_t x_stride, const I32x16 (&raw)[panels],
                                  I32x16 (&partial)[rows][panels]) {
  typename IntDot<bits>::Weights w[panels];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < panels; ++j) w[j] = IntDot<bits>::weights(raw[j]);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < rows; ++i) {
    const I32x16 quad = broadcast_quad(x + i * x_stride);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) partial[i][j] = IntDot<bits>::accumulate(partial[i][j], w[j], quad);
  }
}

template <std::size_t columns, std::size_t rows, std::size_t panels>
MORTISE_INLINE void multiply_step8(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w,
                                   std::size_t w_stride, I32x16 (&partial)[rows][panels]) {
#pragma GCC unroll 8
  for (std::size_t quad = 0; quad < columns / 4; ++quad) {
    I32x16 raw[panels];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) raw[j] = load_line(w + j * w_stride + quad * 64);
    multiply_quad<8>(x + quad * 4, x_stride, raw, partial);
  }
}

template <std::size_t columns, std::size_t rows, std::size_t panels>
MORTISE_INLINE void multiply_step4(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w,
                                   std::size_t w_stride, I32x16 (&partial)[rows][panels]) {
  const I32x16 nibble = broadcast_i32(0x0f0f0f0f);
#pragma GCC unroll 4
  for (std::size_t octet = 0; octet < columns / 8; ++octet) {
    I32x16 low[panels], high[panels];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) {
      const I32x16 raw = load_line(w + j * w_stride + octet * 64);
      low[j] = raw & nibble;
      high[j] = shift_right<4>(raw) & nibble;
    }
    multiply_quad<4>(x + octet * 8, x_stride, low, partial);
    multiply_quad<4>(x + octet * 8 + 4, x_stride, high, partial);
  }
}

// partial[i][j] += `columns` k of row i of x times panel j. Rows of x are x_stride apart, panels w_stride bytes.
template <int bits, std::size_t columns, std::size_t rows, std::size_t panels>
MORTISE_INLINE void multiply_step(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w,
                                  std::size_t w_stride, I32x16 (&partial)[rows][panels]) {
  static_assert(columns % 8 == 0 && columns <= kIntStep);
  if constexpr (bits == 8) {
    multiply_step8<columns>(x, x_stride, w, w_stride, partial);
  } else {
    multiply_step4<columns>(x, x_stride, w, w_stride, partial);
  }
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
