// linear_widened/vector.hpp: products with narrow weights (E4M3, MXFP4) for AVX-512, AVX2 and portable code: widens up
// to kStepTiles depth tiles at a time to f32 in the first-level cache, in the layout of f32 weights, and multiplies
// them with the routines of linear/block.hpp. A weight is a value that borrows its memory:
//   Args, a LinearArgs with the weight's pointers, from which it is made
//   widen(column, t, put): calls put(pair of k, even, odd) for the 16 pairs of depth tile t of the panel at `column`
//   kScaled: the sums of a group (`groups` in a row; a step, or all of K) are multiplied by scale(column, group)
#pragma once

#include "kernels/cpu/linear/block.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kStepTiles = 4;  // depth tiles that are widened at a time: a group of E4M3

// Widened weights times bf16: the product has at most 12 bits.
struct WidenedBits : PackedF32 {
  static MORTISE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return fma_exact_product(a, b, c); }
};

// acc[i][j] = fma(d[i][j], scale of panel j, acc[i][j]) with the scales of a group; acc may be d.
template <std::size_t panels, class Weight>
void scale_sums(const Weight& weight, std::size_t column, std::size_t group, std::size_t rows, const float* d,
                float* acc, bool adds) {
  for (std::size_t j = 0; j < panels; ++j) {
    const F32x16 scale = weight.scale(column + j * kLanes, group);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t at = (i * kPanelBlock + j) * kLanes;
      store(acc + at, fma(load(d + at), scale, adds ? load(acc + at) : zero()));
    }
  }
}

// Up to kChunkRows rows times `panels` panels over all of K.
template <class Weight, class W, std::size_t panels>
void multiply_panels(const typename Weight::Args& args, std::size_t m0, std::size_t rows, std::size_t column, float* d,
                     float* acc) {
  alignas(64) float w[panels * kStepTiles * kDepthTile * kLanes];
  constexpr std::size_t kStride = kStepTiles * kDepthTile * kLanes;  // of panels in w
  const Weight weight(args);
  const std::size_t tiles = depth_tiles_of(args.k), x_stride = prepared_stride(args.k);
  const std::size_t bytes = rows * kPanelBlock * kLanes * sizeof(float);
  const float* x = static_cast<const float*>(args.scratch) + m0 * x_stride;
  const bool grouped = Weight::kScaled && weight.groups > 1;
  std::memset(d, 0, bytes);
  for (std::size_t t = 0; t < tiles; t += kStepTiles) {
    const std::size_t count = minimum(kStepTiles, tiles - t);
    for (std::size_t j = 0; j < panels; ++j) {
      for (std::size_t i = 0; i < count; ++i) {
        weight.widen(column + j * kLanes, t + i, [&](std::size_t pair, F32x16 even, F32x16 odd) {
          float* const out = w + j * kStride + (i * kDepthTile + 2 * pair) * kLanes;
          store(out, even);
          store(out + kLanes, odd);
        });
      }
    }
    if (grouped && t > 0) std::memset(d, 0, bytes);
    multiply_rows<W, panels>(x + t * kDepthTile, x_stride, rows, w, kStride, count, d);
    if constexpr (Weight::kScaled) {
      if (grouped) scale_sums<panels>(weight, column, t / kStepTiles, rows, d, acc, t > 0);
    }
  }
  if constexpr (Weight::kScaled) {
    if (!grouped) scale_sums<panels>(weight, column, 0, rows, d, acc, /*adds=*/false);
  }
}

template <class Weight, class W, class Y>
void run_widened(const typename Weight::Args& args, const LinearRange& range) {
  alignas(64) float d[kChunkRows * kPanelBlock * kLanes],
      scaled[Weight::kScaled ? kChunkRows * kPanelBlock * kLanes : 1];
  float* const acc = Weight::kScaled ? scaled : d;
  for (std::size_t m = range.m0; m < range.m1; m += kChunkRows) {
    const std::size_t rows = minimum(kChunkRows, range.m1 - m);
    for (std::size_t n = range.n0; n < range.n1; n += kPanelBlock * kLanes) {
      if (n + (kPanelBlock - 1) * kLanes < range.n1) {
        multiply_panels<Weight, W, kPanelBlock>(args, m, rows, n, d, acc);
        finish<Y>(args, m, rows, n, kPanelBlock, acc);
      } else {
        multiply_panels<Weight, W, 1>(args, m, rows, n, d, acc);
        finish<Y>(args, m, rows, n, 1, acc);
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
