// plugins/kernels/cuda/mxfp4_weight.hpp: the order of MXFP4 weights on the GPU, and the arguments of a product with
// them. The product has the class of bf16 weights (docs/numerics.md, "Linear with MXFP4 weights").
//
// A panel is 8 rows of w (columns of y), a chunk 128 columns of a panel. The chunks of a panel are contiguous:
//   values     [32 lanes][16]  word i of lane 4 g + t has row g of group i: pairs of neighbours at columns 2 t + 8 j,
//                              j = 0 .. 3. The even column is in the lower half of the word, the odd one in the upper
//                              half, at the places of `mxfp4_place`, from which few instructions make an operand: a
//                              word of the b operand of mma.m16n8k16, and of half of the a operand of wgmma
//   exponents  u8 [8][4]       of the groups of each row: the biased exponent of E8M0, plus 1
// Everything beyond n and k is zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

constexpr int kMxfp4Panel = 8, kMxfp4Chunk = 128, kMxfp4Columns = 32, kMxfp4Step = 16;  // kMxfp4Columns: of a group
constexpr int kMxfp4Groups = kMxfp4Chunk / kMxfp4Columns, kMxfp4Steps = kMxfp4Chunk / kMxfp4Step;  // in a chunk
constexpr int kMxfp4ValueBytes = kMxfp4Panel * kMxfp4Chunk / 2;
constexpr int kMxfp4ChunkBytes = kMxfp4ValueBytes + kMxfp4Panel * kMxfp4Groups;
constexpr int kMxfp4TileColumns = 128;  // the most columns of y for which a block reads weights together

// Up to this biased exponent (a scale of 2) one product widens a number.
constexpr int kMxfp4SmallExponent = 128;

// The places of pair j's number in its half of a word, by its bits: a mask of one bit for each.
struct Mxfp4Place {
  std::uint32_t sign, high, low, mantissa;  // high and low: of the exponent
};
constexpr Mxfp4Place mxfp4_place(int j) {
  if (j == 3) return {1u << 10, 1u << 14, 1u << 13, 1u << 11};  // what the others leave
  return {0x8000u >> 3 * j, 0x100u >> 3 * j, 0x80u >> 3 * j, 0x40u >> 3 * j};
}

// Sizes that follow from the shape. A value.
struct Mxfp4Layout {
  constexpr Mxfp4Layout(std::int64_t n, std::int64_t k)
      : groups((k + kMxfp4Columns - 1) / kMxfp4Columns),
        chunks((k + kMxfp4Chunk - 1) / kMxfp4Chunk),
        // A block may begin at any multiple of 64 columns and then reads kMxfp4TileColumns columns.
        panels((n + 63) / 64 * 8 + (kMxfp4TileColumns - 64) / kMxfp4Panel),
        panel_bytes(chunks * kMxfp4ChunkBytes),
        bytes((panels * panel_bytes + 255) / 256 * 256) {}

  std::int64_t groups;  // in a row
  std::int64_t chunks;  // in a panel
  std::int64_t panels, panel_bytes, bytes;
};

// y[m,n] = round(sum_k x[m,k] w[n,k] (+ bias[n])), n columns from first_column on
//   x bf16 [m, k], rows x_stride apart; bias f32 [n] (from the first column on) or null
//   y bf16 or f32 [m, n], rows y_stride apart
struct LinearMxfp4Args {
  const std::uint16_t* x;
  std::int64_t x_stride;
  const std::byte* w;  // Mxfp4Layout, 16-byte aligned
  bool small;          // no exponent is above kMxfp4SmallExponent
  const float* bias;
  void* y;
  std::int64_t y_stride;
  ElementType y_type;
  std::int64_t m, first_column, n, k;  // first_column is a multiple of 64
};

}  // namespace mortise::cuda
