// linear_fp8 of bf16 rows on AMX: linear_widened/amx.hpp with E4M3. f32 rows: linear_fp8.cpp on AVX-512.
#include "kernels/cpu/linear_widened/amx.hpp"

#include "kernels/cpu/linear_fp8/widen.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const LinearFp8Kernel kLinearFp8ToBf16, kLinearFp8ToF32;
constinit const LinearFp8Kernel kLinearFp8ToBf16 = {scratch_bytes, prepare, run_widened<Fp8Weight, Bf16>};
constinit const LinearFp8Kernel kLinearFp8ToF32 = {scratch_bytes, prepare, run_widened<Fp8Weight, float>};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
