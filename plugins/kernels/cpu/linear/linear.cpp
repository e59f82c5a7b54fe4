// linear in depth tiles for AVX-512, AVX2 and portable code.
#include "kernels/cpu/linear/run.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const LinearBf16Kernels kLinearBf16Kernels;
constinit const LinearBf16Kernels kLinearBf16Kernels = {
    .to_bf16 = kernel_of<Bf16, PackedBf16, Bf16>(),
    .to_f32 = kernel_of<Bf16, PackedBf16, float>(),
};

extern const LinearF32Kernels kLinearF32Kernels;
constinit const LinearF32Kernels kLinearF32Kernels = {
    .to_f32 = kernel_of<float, PackedF32, float>(),
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
