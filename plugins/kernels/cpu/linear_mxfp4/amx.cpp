// linear_mxfp4 of bf16 rows on AMX: linear_widened/amx.hpp with MXFP4. f32 rows: linear_mxfp4.cpp on AVX-512.
#include "kernels/cpu/linear_widened/amx.hpp"

#include "kernels/cpu/linear_mxfp4/widen.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const LinearMxfp4Kernel kLinearMxfp4ToBf16, kLinearMxfp4ToF32;
constinit const LinearMxfp4Kernel kLinearMxfp4ToBf16 = {scratch_bytes, prepare, run_widened<Mxfp4Weight, Bf16>};
constinit const LinearMxfp4Kernel kLinearMxfp4ToF32 = {scratch_bytes, prepare, run_widened<Mxfp4Weight, float>};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
