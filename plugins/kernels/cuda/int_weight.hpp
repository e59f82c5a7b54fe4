// plugins/kernels/cuda/int_weight.hpp: the order of quantised weights on the GPU, and the arguments of a product with
// them. The class is the CPU's, cpu-int8/1 (docs/numerics.md, "Quantised linear"): integer sums have no order, so
// tensor cores give the same bits.
//
// A panel is 16 rows of w (columns of y), a chunk 128 columns of a panel. The chunks of a panel are contiguous:
//   values, 8 bits  [4 steps][32 lanes][16]   a step is the a operand of mma.m16n8k32: word j of lane 4 g + t has row
//                                             g + 8 (j % 2), columns 32 step + 16 (j / 2) + 4 t and the next three,
//                                             each byte value - 128 (signed)
//   values, 4 bits  [2][32 lanes][16]         two steps together: the first in the low halves of the bytes
//   sets            [128 / column_group]: f32 scale[16], u8 zero[16] for a column group of the chunk
// A column group is the columns that share a scale in memory. It has the largest of 128, 64 and 32 columns that divides
// the groups. With one group a row there are no sets; scales f32 [16 panels] and zeros u8 [16 panels] are after all
// panels. Everything beyond n and k is zero, as x is there, except scales in sets, which are -0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

constexpr int kIntPanel = 16, kIntChunk = 128, kIntStep = 32;
constexpr int kIntSteps = kIntChunk / kIntStep;  // in a chunk
constexpr int kIntSetBytes = 5 * kIntPanel;      // scales, then zero points
constexpr std::int64_t kMaxIntGroup = 32768;     // 2 * 255 * 127 * 2^15 < 2^31: no sum of a group wraps
constexpr int kIntColumns = 256;                 // the most columns of y for which a block reads weights together

struct IntFormat {
  std::int32_t bits;        // 8 or 4
  std::int64_t group_size;  // 32, a multiple of 64, or at least k: one group a row
  std::int64_t n, k;
};

constexpr int int_chunk_bytes(int bits, int sets) {
  return kIntChunk * kIntPanel * bits / 8 + sets * kIntSetBytes;
}

// Sizes and offsets that follow from a format. A value.
struct IntLayout {
  explicit constexpr IntLayout(const IntFormat& format)
      : whole(format.group_size >= format.k),
        column_group(whole                          ? 0
                     : format.group_size % 128 == 0 ? 128
                     : format.group_size % 64 == 0  ? 64
                                                    : 32),
        groups(whole ? 1 : (format.k + format.group_size - 1) / format.group_size),
        chunks((format.k + kIntChunk - 1) / kIntChunk),
        // A block may begin at any multiple of 64 columns and then reads kIntColumns columns.
        panels((format.n + 63) / 64 * 4 + (kIntColumns - 64) / kIntPanel),
        value_bytes(kIntChunk * kIntPanel * format.bits / 8),
        chunk_bytes(int_chunk_bytes(format.bits, whole ? 0 : kIntChunk / column_group)),
        panel_bytes(chunks * chunk_bytes),
        scales(panels * panel_bytes),
        zeros(scales + (whole ? panels * kIntPanel * 4 : 0)),
        bytes((zeros + (whole ? panels * kIntPanel : 0) + 255) / 256 * 256) {}

  bool whole;                 // one group a row
  std::int32_t column_group;  // its number of columns; 0 with one group a row
  std::int64_t groups;        // in a row
  std::int64_t chunks;        // in a panel
  std::int64_t panels;
  std::int64_t value_bytes, chunk_bytes, panel_bytes;
  std::int64_t scales, zeros, bytes;  // offsets of the scales and zero points, and the total size
};

// Whether the scale with these bits is 0, or has a magnitude from 2^-64 to below 2^16. Scales of real models have.
constexpr bool is_usual_scale(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  return magnitude == 0 || (magnitude >= (127u - 64) << 23 && magnitude < (127u + 16) << 23);
}

// y[m,n] = round((sum_g f32(dot[m,n,g]) * scale[n,g]) * sx[m] (+ bias[n])), n columns from first_column on
//   x bf16 [m, k], rows x_stride apart; bias f32 [n] (from the first column on) or null
//   y bf16 or f32 [m, n], rows y_stride apart
struct LinearIntArgs {
  const std::uint16_t* x;
  std::int64_t x_stride;
  const std::int32_t* order;  // [k]: column j of w multiplies x[order[j]]; or null
  const std::byte* w;         // IntLayout, 16-byte aligned
  IntFormat format;
  bool symmetric;     // every zero point is 2^(bits - 1)
  bool usual_scales;  // is_usual_scale holds for every scale
  const float* bias;
  void* y;
  std::int64_t y_stride;
  ElementType y_type;
  std::int64_t m, first_column, n;  // first_column is a multiple of 64
};

}  // namespace mortise::cuda
