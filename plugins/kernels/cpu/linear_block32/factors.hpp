// plugins/kernels/cpu/linear_block32/factors.hpp: reads packed scales and minima, which are f16 or f32.
#pragma once

#include "kernels/cpu/linear_block32/linear_block32.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// The scales or minima of sixteen columns in a group. The branch goes the same way during a whole call.
MORTISE_INLINE F32x16 load_factors(const LinearBlock32Args& args, const void* factors, std::size_t at) {
  return args.format.half_scales ? load_f16(static_cast<const F16*>(factors) + at)
                                 : load(static_cast<const float*>(factors) + at);
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
