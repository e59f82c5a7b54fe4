// linear_fp8 for AVX-512, AVX2 and portable code: linear_widened/vector.hpp with E4M3.
#include "kernels/cpu/linear_fp8/widen.hpp"
#include "kernels/cpu/linear_widened/vector.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

static_assert(kStepTiles * kDepthTile == kFp8GroupColumns);

extern const LinearFp8Kernel kLinearFp8ToBf16, kLinearFp8ToF32, kLinearFp8OfF32;
constinit const LinearFp8Kernel kLinearFp8ToBf16 = {scratch_bytes, prepare<Bf16>,
                                                    run_widened<Fp8Weight, WidenedBits, Bf16>};
constinit const LinearFp8Kernel kLinearFp8ToF32 = {scratch_bytes, prepare<Bf16>,
                                                   run_widened<Fp8Weight, WidenedBits, float>};
constinit const LinearFp8Kernel kLinearFp8OfF32 = {scratch_bytes, prepare<float>,
                                                   run_widened<Fp8Weight, PackedF32, float>};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
