// linear_widened/vector.hpp: products with narrow weights (E4M3, MXFP4) for AVX-512, AVX2 and portable code: widens up
// to kStepTiles depth tiles at a time in the first-level cache, in the layout of the policy W (linear/block.hpp), and
// multiplies them. A weight is a value that borrows its memory:
//   Args, a LinearArgs with the weight's pointers, from which it is made
//   widen(column, t, put): calls put(pair of k, even, odd) for the 16 pairs of depth tile t of the panel at `column`
//   kScaled: the sums of a group (`groups` in a row; a step, or all of K) are multiplied by scale(column, group)
#pragma once

#include "kernels/cpu/linear/block.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kStepTiles = 4;  // depth tiles that are widened at a time: a group of E4M3

// acc[i][j] = fma(d[i][j], scale of panel j, acc[i][j]) with the scales of a group; acc may be d.
template <class W, class Weight>
void scale_sums(const Weight& weight, std::size_t column, std::size_t panels, std::size_t group, std::size_t rows,
                const float* d, float* acc, bool adds) {
  for (std::size_t j = 0; j < panels; ++j) {
    const F32x16 scale = weight.scale(column + j * kLanes, group);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t at = (i * W::kPanels + j) * kLanes;
      store(acc + at, fma(load(d + at), scale, adds ? load(acc + at) : zero()));
    }
  }
}

// Up to kChunkRows rows times `panels` panels over all of K.
template <class Weight, class W>
void multiply_panels(const typename Weight::Args& args, std::size_t m0, std::size_t rows, std::size_t column,
                     std::size_t panels, float* d, float* acc) {
  using Row = typename W::Row;
  using Element = typename W::Element;
  alignas(64) Element w[W::kPanels * kStepTiles * kDepthTile * kLanes];
  constexpr std::size_t kStride = kStepTiles * kDepthTile * kLanes;  // of panels in w
  const Weight weight(args);
  const std::size_t tiles = depth_tiles_of(args.k), x_stride = prepared_stride<Row>(args.k);
  const std::size_t bytes = rows * W::kPanels * kLanes * sizeof(float);
  const Row* x = static_cast<const Row*>(args.scratch) + m0 * x_stride;
  const bool grouped = Weight::kScaled && weight.groups > 1;
  std::memset(d, 0, bytes);
  for (std::size_t t = 0; t < tiles; t += kStepTiles) {
    const std::size_t count = minimum(kStepTiles, tiles - t);
    for (std::size_t j = 0; j < panels; ++j) {
      for (std::size_t i = 0; i < count; ++i) {
        weight.widen(column + j * kLanes, t + i, [&](std::size_t pair, F32x16 even, F32x16 odd) {
          W::put(w + j * kStride + (i * kDepthTile + 2 * pair) * kLanes, even, odd);
        });
      }
    }
    if (grouped && t > 0) std::memset(d, 0, bytes);
    multiply_rows<W>(x + t * kDepthTile, x_stride, rows, w, kStride, panels, count, d);
    if constexpr (Weight::kScaled) {
      if (grouped) scale_sums<W>(weight, column, panels, t / kStepTiles, rows, d, acc, t > 0);
    }
  }
  if constexpr (Weight::kScaled) {
    if (!grouped) scale_sums<W>(weight, column, panels, 0, rows, d, acc, /*adds=*/false);
  }
}

template <class Weight, class W, class Y>
void run_widened(const typename Weight::Args& args, const LinearRange& range) {
  alignas(64) float d[kChunkRows * W::kPanels * kLanes], scaled[Weight::kScaled ? kChunkRows * W::kPanels * kLanes : 1];
  float* const acc = Weight::kScaled ? scaled : d;
  for (std::size_t m = range.m0; m < range.m1; m += kChunkRows) {
    const std::size_t rows = minimum(kChunkRows, range.m1 - m);
    for (std::size_t n = range.n0; n < range.n1; n += W::kPanels * kLanes) {
      const std::size_t panels = minimum(W::kPanels, (range.n1 - n + kLanes - 1) / kLanes);
      multiply_panels<Weight, W>(args, m, rows, n, panels, d, acc);
      finish<W, Y>(args, m, rows, n, panels, acc);
    }
  }
}

// {scratch_bytes, prepare, run} of rows in X and results in Y.
template <class X, class Weight, class W, class Y, class Kernel>
constexpr Kernel widened_kernel() {
  return {scratch_bytes<typename W::Row>, prepare<X, typename W::Row>, run_widened<Weight, W, Y>};
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
