// linear_mxfp4 in pairs: linear_widened/vector.hpp with MXFP4 and the policy of linear/pairs.hpp.
#include "kernels/cpu/linear/pairs.hpp"
#include "kernels/cpu/linear_mxfp4/widen.hpp"
#include "kernels/cpu/linear_widened/vector.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const LinearMxfp4Kernel kLinearMxfp4PairsToBf16, kLinearMxfp4PairsToF32;
constinit const LinearMxfp4Kernel kLinearMxfp4PairsToBf16 =
    widened_kernel<Bf16, Mxfp4Weight, WidenedPairs, Bf16, LinearMxfp4Kernel>();
constinit const LinearMxfp4Kernel kLinearMxfp4PairsToF32 =
    widened_kernel<Bf16, Mxfp4Weight, WidenedPairs, float, LinearMxfp4Kernel>();

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
