// linear_fp8 for AVX-512, AVX2 and portable code: linear_widened/vector.hpp with E4M3.
#include "kernels/cpu/linear_fp8/widen.hpp"
#include "kernels/cpu/linear_widened/vector.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

static_assert(kStepTiles * kDepthTile == kFp8GroupColumns);

extern const LinearFp8Kernel kLinearFp8ToBf16, kLinearFp8ToF32, kLinearFp8OfF32;
constinit const LinearFp8Kernel kLinearFp8ToBf16 =
    widened_kernel<Bf16, Fp8Weight, WidenedBits, Bf16, LinearFp8Kernel>();
constinit const LinearFp8Kernel kLinearFp8ToF32 =
    widened_kernel<Bf16, Fp8Weight, WidenedBits, float, LinearFp8Kernel>();
constinit const LinearFp8Kernel kLinearFp8OfF32 = widened_kernel<float, Fp8Weight, PackedF32, float, LinearFp8Kernel>();

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
