// The kernel tables of one instruction set. Compiled once per instruction set.
#include "kernels/cpu/kernel_table.hpp"

#if defined(MORTISE_ISA_AVX512)
namespace mortise::cpu::isa_avx512_vnni {
extern const LinearBlock32Kernels kLinearBlock32Kernels;
extern const LinearIntKernels kLinearIntKernels;
}  // namespace mortise::cpu::isa_avx512_vnni
namespace mortise::cpu::isa_avx512_bf16 {
extern const ActivationKernels kActivationKernels;
extern const LinearBf16Kernels kLinearPairsKernels;
extern const LinearMxfp4Kernel kLinearMxfp4PairsToBf16, kLinearMxfp4PairsToF32;
extern const NormKernels kNormKernels;
extern const RopeKernels kRopeKernels;
extern const SpanKernels kSpanPairsKernels, kSpanPairsInt8Kernels, kSpanPairsFp8Kernels;
}  // namespace mortise::cpu::isa_avx512_bf16
namespace mortise::cpu::isa_amx {
extern const LinearBf16Kernels kLinearBf16Kernels;
extern const LinearBlock32Kernels kLinearBlock32Kernels;
extern const LinearFp8Kernel kLinearFp8ToBf16, kLinearFp8ToF32;
extern const LinearIntKernels kLinearIntKernels;
extern const LinearMxfp4Kernel kLinearMxfp4ToBf16, kLinearMxfp4ToF32;
extern const SpanKernels kSpanBf16Kernels, kSpanBf16Int8Kernels, kSpanBf16Fp8Kernels;
}  // namespace mortise::cpu::isa_amx
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const ActivationKernels kActivationKernels;
extern const ElementwiseKernels kElementwiseKernels;
extern const HeadKernels kHeadKernels;
extern const LinearBf16Kernels kLinearBf16Kernels, kLinearPairsKernels;
extern const LinearF32Kernels kLinearF32Kernels;
extern const LinearBlock32Kernels kLinearBlock32Kernels;
extern const LinearFp8Kernel kLinearFp8ToBf16, kLinearFp8ToF32, kLinearFp8OfF32;
extern const LinearIntKernels kLinearIntKernels;
extern const LinearMxfp4Kernel kLinearMxfp4ToBf16, kLinearMxfp4ToF32, kLinearMxfp4OfF32;
extern const LinearMxfp4Kernel kLinearMxfp4PairsToBf16, kLinearMxfp4PairsToF32;
extern const NormKernels kNormKernels;
extern const SampleKernels kSampleKernels;
extern const KvWriteKernels kKvWriteKernels;
extern const RopeKernels kRopeKernels;
extern const SpanKernels kSpanBf16Kernels, kSpanBf16Int8Kernels, kSpanBf16Fp8Kernels;
extern const SpanKernels kSpanPairsKernels, kSpanPairsInt8Kernels, kSpanPairsFp8Kernels;
extern const SpanKernels kSpanF32Kernels, kSpanF32Int8Kernels, kSpanF32Fp8Kernels;

extern const Bf16Kernels kTileKernels, kPairKernels;
constinit const Bf16Kernels kTileKernels = {
    .linear = kLinearBf16Kernels,
    .linear_mxfp4_to_bf16 = kLinearMxfp4ToBf16,
    .linear_mxfp4_to_f32 = kLinearMxfp4ToF32,
    .span = kSpanBf16Kernels,
    .span_int8 = kSpanBf16Int8Kernels,
    .span_fp8 = kSpanBf16Fp8Kernels,
};
constinit const Bf16Kernels kPairKernels = {
    .linear = kLinearPairsKernels,
    .linear_mxfp4_to_bf16 = kLinearMxfp4PairsToBf16,
    .linear_mxfp4_to_f32 = kLinearMxfp4PairsToF32,
    .span = kSpanPairsKernels,
    .span_int8 = kSpanPairsInt8Kernels,
    .span_fp8 = kSpanPairsFp8Kernels,
};

extern const KernelTable kKernelTable;
constinit const KernelTable kKernelTable = {
    .activation = kActivationKernels,
    .elementwise = kElementwiseKernels,
    .head = kHeadKernels,
    .linear_f32 = kLinearF32Kernels,
    .linear_block32 = kLinearBlock32Kernels,
    .linear_fp8_to_bf16 = kLinearFp8ToBf16,
    .linear_fp8_to_f32 = kLinearFp8ToF32,
    .linear_fp8_f32 = kLinearFp8OfF32,
    .linear_int = kLinearIntKernels,
    .linear_mxfp4_f32 = kLinearMxfp4OfF32,
    .norm = kNormKernels,
    .sampling = kSampleKernels,
    .kv_write = kKvWriteKernels,
    .rope = kRopeKernels,
    .span_f32 = kSpanF32Kernels,
    .span_f32_int8 = kSpanF32Int8Kernels,
    .span_f32_fp8 = kSpanF32Fp8Kernels,
};

#if defined(MORTISE_ISA_AVX512)
// VDPBF16PS.
extern const Bf16Kernels kDotKernels;
constinit const Bf16Kernels kDotKernels = {
    .linear = isa_avx512_bf16::kLinearPairsKernels,
    .linear_mxfp4_to_bf16 = isa_avx512_bf16::kLinearMxfp4PairsToBf16,
    .linear_mxfp4_to_f32 = isa_avx512_bf16::kLinearMxfp4PairsToF32,
    .span = isa_avx512_bf16::kSpanPairsKernels,
    .span_int8 = isa_avx512_bf16::kSpanPairsInt8Kernels,
    .span_fp8 = isa_avx512_bf16::kSpanPairsFp8Kernels,
};

extern const Bf16Kernels kAmxTileKernels;
constinit const Bf16Kernels kAmxTileKernels = {
    .linear = isa_amx::kLinearBf16Kernels,
    .linear_mxfp4_to_bf16 = isa_amx::kLinearMxfp4ToBf16,
    .linear_mxfp4_to_f32 = isa_amx::kLinearMxfp4ToF32,
    .span = isa_amx::kSpanBf16Kernels,
    .span_int8 = isa_amx::kSpanBf16Int8Kernels,
    .span_fp8 = isa_amx::kSpanBf16Fp8Kernels,
};

// The AVX-512 kernels, with integer products on VNNI.
extern const KernelTable kVnniKernelTable;
constinit const KernelTable kVnniKernelTable = {
    .activation = kActivationKernels,
    .elementwise = kElementwiseKernels,
    .head = kHeadKernels,
    .linear_f32 = kLinearF32Kernels,
    .linear_block32 = isa_avx512_vnni::kLinearBlock32Kernels,
    .linear_fp8_to_bf16 = kLinearFp8ToBf16,
    .linear_fp8_to_f32 = kLinearFp8ToF32,
    .linear_fp8_f32 = kLinearFp8OfF32,
    .linear_int = isa_avx512_vnni::kLinearIntKernels,
    .linear_mxfp4_f32 = kLinearMxfp4OfF32,
    .norm = kNormKernels,
    .sampling = kSampleKernels,
    .kv_write = kKvWriteKernels,
    .rope = kRopeKernels,
    .span_f32 = kSpanF32Kernels,
    .span_f32_int8 = kSpanF32Int8Kernels,
    .span_f32_fp8 = kSpanF32Fp8Kernels,
};

// AMX: the AVX-512 kernels, except those that have an AMX form or gain from the conversions of AVX512-BF16, which every
// machine with AMX has.
extern const KernelTable kAmxKernelTable;
constinit const KernelTable kAmxKernelTable = {
    .activation = isa_avx512_bf16::kActivationKernels,
    .elementwise = kElementwiseKernels,
    .head = kHeadKernels,
    .linear_f32 = kLinearF32Kernels,
    .linear_block32 = isa_amx::kLinearBlock32Kernels,
    .linear_fp8_to_bf16 = isa_amx::kLinearFp8ToBf16,
    .linear_fp8_to_f32 = isa_amx::kLinearFp8ToF32,
    .linear_fp8_f32 = kLinearFp8OfF32,
    .linear_int = isa_amx::kLinearIntKernels,
    .linear_mxfp4_f32 = kLinearMxfp4OfF32,
    .norm = isa_avx512_bf16::kNormKernels,
    .sampling = kSampleKernels,
    .kv_write = kKvWriteKernels,
    .rope = isa_avx512_bf16::kRopeKernels,
    .span_f32 = kSpanF32Kernels,
    .span_f32_int8 = kSpanF32Int8Kernels,
    .span_f32_fp8 = kSpanF32Fp8Kernels,
};
#endif

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
