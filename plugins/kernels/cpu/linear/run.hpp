// plugins/kernels/cpu/linear/run.hpp: a range of a product on vectors, for a policy W of linear/block.hpp.
#pragma once

#include "kernels/cpu/linear/block.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Up to kChunkRows rows times `panels` panels over all of K.
template <class W>
void multiply_panels(const LinearArgs& args, std::size_t m0, std::size_t rows, std::size_t column, std::size_t panels,
                     float* acc) {
  using Row = typename W::Row;
  using Element = typename W::Element;
  constexpr std::size_t kBlockTiles = kBlockBytes / (W::kPanels * kDepthTile * kLanes * sizeof(Element));
  const std::size_t tiles = depth_tiles_of(args.k), x_stride = prepared_stride<Row>(args.k);
  const Row* x = static_cast<const Row*>(args.scratch) + m0 * x_stride;
  const auto* w = static_cast<const Element*>(args.w) + column * tiles * kDepthTile;
  std::memset(acc, 0, rows * W::kPanels * kLanes * sizeof(float));
  for (std::size_t t = 0; t < tiles; t += kBlockTiles) {
    multiply_rows<W>(x + t * kDepthTile, x_stride, rows, w + t * kDepthTile * kLanes, tiles * kDepthTile * kLanes,
                     panels, minimum(kBlockTiles, tiles - t), acc);
  }
}

template <class W, class Y>
void run(const LinearArgs& args, const LinearRange& range) {
  alignas(64) float acc[kChunkRows * W::kPanels * kLanes];
  for (std::size_t m = range.m0; m < range.m1; m += kChunkRows) {
    const std::size_t rows = minimum(kChunkRows, range.m1 - m);
    for (std::size_t n = range.n0; n < range.n1; n += W::kPanels * kLanes) {
      const std::size_t panels = minimum(W::kPanels, (range.n1 - n + kLanes - 1) / kLanes);
      multiply_panels<W>(args, m, rows, n, panels, acc);
      finish<W, Y>(args, m, rows, n, panels, acc);
    }
  }
}

template <class X, class W, class Y>
constexpr LinearKernel kernel_of() {
  return {scratch_bytes<typename W::Row>, prepare<X, typename W::Row>, run<W, Y>, nullptr};
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
