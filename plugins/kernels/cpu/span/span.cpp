#include "kernels/cpu/span/span.hpp"

#include "kernels/cpu/span/dot.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const SpanKernels kSpanBf16Kernels, kSpanBf16Int8Kernels, kSpanBf16Fp8Kernels;
constinit const SpanKernels kSpanBf16Kernels = span_kernels<Bf16, VecProducts<Bf16>>();
constinit const SpanKernels kSpanBf16Int8Kernels = span_kernels<Bf16, VecProducts<Bf16, std::int8_t>>();
constinit const SpanKernels kSpanBf16Fp8Kernels = span_kernels<Bf16, VecProducts<Bf16, Fp8>>();

extern const SpanKernels kSpanF32Kernels, kSpanF32Int8Kernels, kSpanF32Fp8Kernels;
constinit const SpanKernels kSpanF32Kernels = span_kernels<float, VecProducts<float>>();
constinit const SpanKernels kSpanF32Int8Kernels = span_kernels<float, VecProducts<float, std::int8_t>>();
constinit const SpanKernels kSpanF32Fp8Kernels = span_kernels<float, VecProducts<float, Fp8>>();

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
