// Attention of class attention-span256-pairs/1: the products in pairs, on vectors, or on VDPBF16PS where the file is
// compiled for it.
#include "kernels/cpu/span/dot.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

#if defined(__AVX512BF16__) || defined(MORTISE_EMULATED_DOT)  // tests run this form on machines without the instruction
using Order = DotOrder;
#else
using Order = PairOrder;
#endif

}  // namespace

extern const SpanKernels kSpanPairsKernels, kSpanPairsInt8Kernels, kSpanPairsFp8Kernels;
constinit const SpanKernels kSpanPairsKernels = span_kernels<Bf16, VecProducts<Bf16, Bf16, Order>>();
constinit const SpanKernels kSpanPairsInt8Kernels = span_kernels<Bf16, VecProducts<Bf16, std::int8_t, Order>>();
constinit const SpanKernels kSpanPairsFp8Kernels = span_kernels<Bf16, VecProducts<Bf16, Fp8, Order>>();

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
