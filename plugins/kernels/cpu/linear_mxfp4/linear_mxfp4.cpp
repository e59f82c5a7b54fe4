// linear_mxfp4 for AVX-512, AVX2 and portable code: linear_widened/vector.hpp with MXFP4.
#include "kernels/cpu/linear_mxfp4/widen.hpp"
#include "kernels/cpu/linear_widened/vector.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const LinearMxfp4Kernel kLinearMxfp4ToBf16, kLinearMxfp4ToF32, kLinearMxfp4OfF32;
constinit const LinearMxfp4Kernel kLinearMxfp4ToBf16 =
    widened_kernel<Bf16, Mxfp4Weight, WidenedBits, Bf16, LinearMxfp4Kernel>();
constinit const LinearMxfp4Kernel kLinearMxfp4ToF32 =
    widened_kernel<Bf16, Mxfp4Weight, WidenedBits, float, LinearMxfp4Kernel>();
constinit const LinearMxfp4Kernel kLinearMxfp4OfF32 =
    widened_kernel<float, Mxfp4Weight, PackedF32, float, LinearMxfp4Kernel>();

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
