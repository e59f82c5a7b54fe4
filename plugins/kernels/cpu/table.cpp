// The kernels of one instruction set, gathered; compiled once for each.
#include "kernels/cpu/kernel_table.hpp"

#if defined(MORTISE_ISA_AVX512)
namespace mortise::cpu::isa_amx {
extern const LinearBf16Kernels kLinearBf16Kernels;
}
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const ElementwiseKernels kElementwiseKernels;
extern const HeadKernels kHeadKernels;
extern const LinearBf16Kernels kLinearBf16Kernels;
extern const LinearF32Kernels kLinearF32Kernels;
extern const SampleKernels kSampleKernels;

extern const KernelTable kKernelTable;
constinit const KernelTable kKernelTable = {
    .elementwise = kElementwiseKernels,
    .head = kHeadKernels,
    .linear_bf16 = kLinearBf16Kernels,
    .linear_f32 = kLinearF32Kernels,
    .sampling = kSampleKernels,
};

#if defined(MORTISE_ISA_AVX512)
// AMX: the AVX-512 kernels, but for those that have a form on tiles.
extern const KernelTable kAmxKernelTable;
constinit const KernelTable kAmxKernelTable = {
    .elementwise = kElementwiseKernels,
    .head = kHeadKernels,
    .linear_bf16 = isa_amx::kLinearBf16Kernels,
    .linear_f32 = kLinearF32Kernels,
    .sampling = kSampleKernels,
};
#endif

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
