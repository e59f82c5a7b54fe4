// plugins/kernels/cpu/linear_block32/rows.hpp: rows of x as int8 in blocks of 32, the first step of linear_block32. The
// scratch holds, row after row: int8 values [x_stride], scales f32 [blocks], and for each part the start of its
// integer sum i32 and the factor of its minimum f32. There is room for parts of 16 columns, whatever the format is.
#pragma once

#include "kernels/cpu/linear_block32/linear_block32.hpp"
#include "kernels/cpu/linear_int/dot.hpp"
#include "kernels/cpu/linear_int/rows.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// The quantised rows, in scratch that somebody else owns. A value.
struct Block32Rows {
  std::int8_t* x;
  std::size_t x_stride;
  float* scales;  // [M][blocks]
  // [M][parts] (zero offset of the dot products - zero point) * sum of the part's int8 values.
  std::int32_t* starts;
  float* sums;  // [M][parts] scale * sum of the part's int8 values
  std::size_t blocks, parts;

  // A whole number of vectors, so that scales are computed sixteen at a time.
  static constexpr std::size_t padded_blocks(std::size_t k) {
    return ((k + kBlock32 - 1) / kBlock32 + kLanes - 1) / kLanes * kLanes;
  }
  static constexpr std::size_t bytes(std::size_t m, std::size_t k) {
    return m * (IntRows::stride(k) + padded_blocks(k) * (sizeof(float) + 2 * (sizeof(std::int32_t) + sizeof(float))));
  }
};

MORTISE_INLINE Block32Rows block32_rows(const LinearBlock32Args& args) {
  const std::size_t blocks = Block32Rows::padded_blocks(args.k);
  Block32Rows rows;
  rows.x = static_cast<std::int8_t*>(args.scratch);
  rows.x_stride = IntRows::stride(args.k);
  rows.blocks = blocks;
  rows.parts = args.format.group_size == kBlock32 / 2 ? 2 * blocks : blocks;
  rows.scales = reinterpret_cast<float*>(rows.x + args.m * rows.x_stride);
  rows.starts = reinterpret_cast<std::int32_t*>(rows.scales + args.m * blocks);
  rows.sums = reinterpret_cast<float*>(rows.starts + args.m * 2 * blocks);
  return rows;
}

// Writes the largest magnitude of each block of a row to most[blocks], blocks from K on included: zero. Returns whether
// every element is finite; if not, `most` is not usable.
template <class X>
MORTISE_INLINE bool largest_of_blocks(const X* x, std::size_t k, std::size_t blocks, float* most) {
  const I32x16 infinity = broadcast_i32(0x7f800000), magnitude = broadcast_i32(INT32_MAX);
  I32x16 largest = broadcast_i32(0);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t at = b * kBlock32;
    if (at >= k) {
      most[b] = 0.0f;
      continue;
    }
    const bool whole = at + kBlock32 <= k;
    const F32x16 low = whole ? read(x + at) : read_tail(x + at, lanes_left(k - at));
    const F32x16 high = whole             ? read(x + at + kLanes)
                        : at + kLanes < k ? read_tail(x + at + kLanes, lanes_left(k - at - kLanes))
                                          : zero();
    const I32x16 both = max(bits(low) & magnitude, bits(high) & magnitude);
    largest = max(largest, both);
    most[b] = max(from_bits(both));
  }
  return !any(gt(largest, infinity - broadcast_i32(1)));
}

// The scales of sixteen blocks from their largest magnitudes, and what x is multiplied by.
MORTISE_INLINE void scales_of_blocks(const float* most, float* scales, float* inverses) {
  const F32x16 a = load(most), steps = broadcast(127.0f);
  const Mask16 small = lt(a, broadcast(0x1p-119f));
  store(scales, select(small, zero(), a / steps));
  store(inverses, select(small, zero(), steps / a));
}

// The int8 values of sixteen elements from `at` on; zeros from K on.
template <class X>
MORTISE_INLINE I32x16 quantized_sixteen(const X* x, std::size_t k, std::size_t at, F32x16 inverse, std::int8_t* out) {
  if (at >= k) {
    store_i8(out + at, broadcast_i32(0));
    return broadcast_i32(0);
  }
  const I32x16 q = to_int((at + kLanes <= k ? read(x + at) : read_tail(x + at, k - at)) * inverse);
  store_i8(out + at, q);
  return q;
}

// A row with an element that is NaN or infinite: all its scales are NaN, its values 0.
MORTISE_INLINE void nan_row(const Block32Rows& rows, std::size_t m) {
  const F32x16 nan = from_bits(broadcast_i32(0x7fc00000));
  std::memset(rows.x + m * rows.x_stride, 0, rows.x_stride);
  for (std::size_t b = 0; b < rows.blocks; b += kLanes) store(rows.scales + m * rows.blocks + b, nan);
  for (std::size_t p = 0; p < rows.parts; p += kLanes) {
    store(rows.starts + m * rows.parts + p, broadcast_i32(0));
    store(rows.sums + m * rows.parts + p, nan);
  }
}

// Quantises sixteen blocks of a row from block b0 on. An integer sum of a part is below 2^24, so that it is exact in
// f32 in any order.
template <class X, bool halves>
MORTISE_INLINE void quantize_blocks(const LinearBlock32Args& args, const Block32Rows& rows, const X* x, std::size_t m,
                                    std::size_t b0, const float* most) {
  alignas(64) float inverses[kLanes];
  alignas(64) float sums[2 * kLanes];
  alignas(64) float part_scales[2 * kLanes];
  float* const scales = rows.scales + m * rows.blocks + b0;
  scales_of_blocks(most, scales, inverses);
  std::int8_t* const out = rows.x + m * rows.x_stride;
  const std::size_t end = rows.x_stride;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const std::size_t at = (b0 + i) * kBlock32;
    I32x16 low = broadcast_i32(0), high = low;
    if (at < end) {
      const F32x16 inverse = broadcast(inverses[i]);
      low = quantized_sixteen(x, args.k, at, inverse, out);
      high = quantized_sixteen(x, args.k, at + kLanes, inverse, out);
    }
    if constexpr (halves) {
      sums[2 * i] = sum(to_float(low)), sums[2 * i + 1] = sum(to_float(high));
      part_scales[2 * i] = part_scales[2 * i + 1] = scales[i];
    } else {
      sums[i] = sum(to_float(low + high));
      part_scales[i] = scales[i];
    }
  }
  const std::int32_t offset = args.format.bits == 4 ? IntDot<4>::kOffset : IntDot<8>::kOffset;
  const I32x16 factor = broadcast_i32(offset - args.format.zero);
  const std::size_t p0 = m * rows.parts + b0 * (halves ? 2 : 1);
  for (std::size_t p = 0; p < (halves ? 2 : 1) * kLanes; p += kLanes) {
    const F32x16 total = load(sums + p);
    store(rows.starts + p0 + p, mul_lo(factor, to_int(total)));
    store(rows.sums + p0 + p, load(part_scales + p) * total);
  }
}

// The prepare function of LinearBlock32Kernels.
template <class X>
void quantize_rows_in_blocks(const LinearBlock32Args& args, std::size_t m0, std::size_t m1) {
  constexpr std::size_t kAtOnce = 16 * kLanes;  // blocks: the maxima of 8192 columns lie on the stack
  const Block32Rows rows = block32_rows(args);
  alignas(64) float most[kAtOnce];
  for (std::size_t m = m0; m < m1; ++m) {
    const X* const x = static_cast<const X*>(args.x) + m * args.x_stride;
    bool finite = true;
    for (std::size_t first = 0; first < rows.blocks && finite; first += kAtOnce) {
      const std::size_t count = minimum(kAtOnce, rows.blocks - first), column = first * kBlock32;
      finite = largest_of_blocks(x + column, args.k - column, count, most);
      for (std::size_t b = 0; b < count && finite; b += kLanes) {
        rows.parts == rows.blocks ? quantize_blocks<X, false>(args, rows, x, m, first + b, most + b)
                                  : quantize_blocks<X, true>(args, rows, x, m, first + b, most + b);
      }
    }
    if (!finite) nan_row(rows, m);
  }
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
