// linear in pairs, class cpu-bf16-pairs/1: on vectors, or on VDPBF16PS where the file is compiled for it.
#include "kernels/cpu/linear/pairs.hpp"

#include "kernels/cpu/linear/run.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const LinearBf16Kernels kLinearPairsKernels;
constinit const LinearBf16Kernels kLinearPairsKernels = {
    .to_bf16 = kernel_of<Bf16, BitsInPairs, Bf16>(),
    .to_f32 = kernel_of<Bf16, BitsInPairs, float>(),
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
