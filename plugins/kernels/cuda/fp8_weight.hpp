// plugins/kernels/cuda/fp8_weight.hpp: the order of E4M3 weights on the GPU, and the arguments of a product with them.
// Class cuda-fp8/1 (docs/numerics.md, "Linear with FP8 weights").
//
// A panel is 8 rows of w (columns of y), a chunk 128 columns of a panel. The chunks of a panel are contiguous:
//   values  [2][32 lanes][16]   each half is four steps of 16 columns; word i of lane 4 g + t has row g of step i,
//                               columns k = 2 t and k + 1 in bytes 1 and 3, k + 8 and k + 9 in bytes 0 and 2: the b
//                               operand of mma.m16n8k16, and half of the a operand of wgmma
//   scales  f32 [8], with groups of 128 columns
// With one scale a row the scales f32 [8 panels] are after all panels. Everything beyond n and k is zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

constexpr int kFp8Panel = 8, kFp8Chunk = 128, kFp8Step = 16;
constexpr int kFp8Steps = kFp8Chunk / kFp8Step;  // in a chunk
constexpr int kFp8ValueBytes = kFp8Panel * kFp8Chunk, kFp8ScaleBytes = kFp8Panel * 4;
constexpr int kFp8Columns = 128;  // the most columns of y for which a block reads weights together

struct Fp8Format {
  bool grouped;  // a scale for each row and 128 columns; otherwise one for each row
  std::int64_t n, k;
};

constexpr int fp8_chunk_bytes(bool grouped) {
  return kFp8ValueBytes + (grouped ? kFp8ScaleBytes : 0);
}

// Sizes and offsets that follow from a format. A value.
struct Fp8Layout {
  explicit constexpr Fp8Layout(const Fp8Format& format)
      : groups(format.grouped ? (format.k + kFp8Chunk - 1) / kFp8Chunk : 1),
        chunks((format.k + kFp8Chunk - 1) / kFp8Chunk),
        // A block may begin at any multiple of 64 columns and then reads kFp8Columns columns.
        panels((format.n + 63) / 64 * 8 + (kFp8Columns - 64) / kFp8Panel),
        chunk_bytes(fp8_chunk_bytes(format.grouped)),
        panel_bytes(chunks * chunk_bytes),
        scales(panels * panel_bytes),
        bytes((scales + (format.grouped ? 0 : panels * kFp8ScaleBytes) + 255) / 256 * 256) {}

  std::int64_t groups;  // in a row
  std::int64_t chunks;  // in a panel
  std::int64_t panels;
  std::int64_t chunk_bytes, panel_bytes;
  std::int64_t scales, bytes;  // offset of the scales, and the total size
};

// y[m,n] = round(sum_g d[m,n,g] * scale[n,g] (+ bias[n])), n columns from first_column on
//   x bf16 [m, k], rows x_stride apart; bias f32 [n] (from the first column on) or null
//   y bf16 or f32 [m, n], rows y_stride apart
struct LinearFp8Args {
  const std::uint16_t* x;
  std::int64_t x_stride;
  const std::byte* w;  // Fp8Layout, 16-byte aligned
  Fp8Format format;
  const float* bias;
  void* y;
  std::int64_t y_stride;
  ElementType y_type;
  std::int64_t m, first_column, n;  // first_column is a multiple of 64
};

}  // namespace mortise::cuda
