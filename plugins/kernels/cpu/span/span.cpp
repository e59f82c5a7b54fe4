#include "kernels/cpu/span/span.hpp"

#include "kernels/cpu/span/dot.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const SpanKernels kSpanBf16Kernels;
constinit const SpanKernels kSpanBf16Kernels = {
    .attend = attend<Bf16, VecProducts<Bf16>>,
    .fold = fold<Bf16, VecProducts<Bf16>>,
    .partial = write_partials<Bf16, VecProducts<Bf16>>,
};

extern const SpanKernels kSpanF32Kernels;
constinit const SpanKernels kSpanF32Kernels = {
    .attend = attend<float, VecProducts<float>>,
    .fold = fold<float, VecProducts<float>>,
    .partial = write_partials<float, VecProducts<float>>,
};

extern const SpanKernels kSpanBf16Int8Kernels;
constinit const SpanKernels kSpanBf16Int8Kernels = {
    .attend = attend<Bf16, VecProducts<Bf16, std::int8_t>>,
    .fold = fold<Bf16, VecProducts<Bf16, std::int8_t>>,
    .partial = write_partials<Bf16, VecProducts<Bf16, std::int8_t>>,
};

extern const SpanKernels kSpanF32Int8Kernels;
constinit const SpanKernels kSpanF32Int8Kernels = {
    .attend = attend<float, VecProducts<float, std::int8_t>>,
    .fold = fold<float, VecProducts<float, std::int8_t>>,
    .partial = write_partials<float, VecProducts<float, std::int8_t>>,
};

extern const SpanKernels kSpanBf16Fp8Kernels;
constinit const SpanKernels kSpanBf16Fp8Kernels = {
    .attend = attend<Bf16, VecProducts<Bf16, Fp8>>,
    .fold = fold<Bf16, VecProducts<Bf16, Fp8>>,
    .partial = write_partials<Bf16, VecProducts<Bf16, Fp8>>,
};

extern const SpanKernels kSpanF32Fp8Kernels;
constinit const SpanKernels kSpanF32Fp8Kernels = {
    .attend = attend<float, VecProducts<float, Fp8>>,
    .fold = fold<float, VecProducts<float, Fp8>>,
    .partial = write_partials<float, VecProducts<float, Fp8>>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
