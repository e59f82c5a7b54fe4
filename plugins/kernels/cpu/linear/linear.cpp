// linear for AVX-512, AVX2 and portable code.
#include "kernels/cpu/linear/block.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Up to kChunkRows rows times `panels` panels over all of K.
template <class W, std::size_t panels>
void multiply_panels(const LinearArgs& args, std::size_t m0, std::size_t rows, std::size_t column, float* acc) {
  const std::size_t tiles = depth_tiles_of(args.k), x_stride = prepared_stride(args.k);
  const float* x = static_cast<const float*>(args.scratch) + m0 * x_stride;
  const auto* w = static_cast<const typename W::Element*>(args.w) + column * tiles * kDepthTile;
  std::memset(acc, 0, rows * kPanelBlock * kLanes * sizeof(float));
  for (std::size_t t = 0; t < tiles; t += kBlockTiles) {
    multiply_rows<W, panels>(x + t * kDepthTile, x_stride, rows, w + t * kDepthTile * kLanes,
                             tiles * kDepthTile * kLanes, minimum(kBlockTiles, tiles - t), acc);
  }
}

template <class W, class Y>
void run(const LinearArgs& args, const LinearRange& range) {
  alignas(64) float acc[kChunkRows * kPanelBlock * kLanes];
  for (std::size_t m = range.m0; m < range.m1; m += kChunkRows) {
    const std::size_t rows = minimum(kChunkRows, range.m1 - m);
    for (std::size_t n = range.n0; n < range.n1; n += kPanelBlock * kLanes) {
      if (n + (kPanelBlock - 1) * kLanes < range.n1) {
        multiply_panels<W, kPanelBlock>(args, m, rows, n, acc);
        finish<Y>(args, m, rows, n, kPanelBlock, acc);
      } else {
        multiply_panels<W, 1>(args, m, rows, n, acc);
        finish<Y>(args, m, rows, n, 1, acc);
      }
    }
  }
}

}  // namespace

extern const LinearBf16Kernels kLinearBf16Kernels;
constinit const LinearBf16Kernels kLinearBf16Kernels = {
    .to_bf16 = {scratch_bytes, prepare<Bf16>, run<PackedBf16, Bf16>, nullptr},
    .to_f32 = {scratch_bytes, prepare<Bf16>, run<PackedBf16, float>, nullptr},
};

extern const LinearF32Kernels kLinearF32Kernels;
constinit const LinearF32Kernels kLinearF32Kernels = {
    .to_f32 = {scratch_bytes, prepare<float>, run<PackedF32, float>, nullptr},
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
