#include "kernels/cuda/span_kernels.hpp"

#include "kernels/cuda/span_tiles.hpp"

namespace mortise::cuda {

const SpanKernels& hopper_span_kernels() {
  static constexpr SpanKernels kKernels = {span_decode_prepare, span_prefill_prepare, span_decode, span_prefill};
  return kKernels;
}

const SpanKernels& mma_span_kernels() {
  static constexpr SpanKernels kKernels = {span_tiles_prepare, span_tiles_prepare, span_tiles_decode,
                                           span_tiles_prefill};
  return kKernels;
}

}  // namespace mortise::cuda
