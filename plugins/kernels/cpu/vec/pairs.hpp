// plugins/kernels/cpu/vec/pairs.hpp: sixteen pairs of bf16, and their product in the order of class cpu-bf16-pairs/1. A
// pair is one 32-bit lane: the element with the even index is in the lower half, the odd one in the upper half.
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

MORTISE_INLINE I32x16 load_pairs(const Bf16* p) {
  return load_i32(reinterpret_cast<const std::int32_t*>(p));
}
MORTISE_INLINE I32x16 broadcast_pair(const Bf16* p) {
  std::int32_t pair;
  std::memcpy(&pair, p, sizeof pair);
  return broadcast_i32(pair);
}
MORTISE_INLINE F32x16 even_of(I32x16 pairs) {
  return from_bits(shift_left<16>(pairs));
}
MORTISE_INLINE F32x16 odd_of(I32x16 pairs) {
  return from_bits(pairs & broadcast_i32(static_cast<std::int32_t>(0xffff0000u)));
}
// REQUIRES: the numbers are bf16 ones, so that nothing is rounded.
MORTISE_INLINE I32x16 join_pairs(F32x16 even, F32x16 odd) {
  return shift_right<16>(bits(even)) | (bits(odd) & broadcast_i32(static_cast<std::int32_t>(0xffff0000u)));
}

// fma(even a, even b, fma(odd a, odd b, sum)), two roundings. VDPBF16PS computes it in one instruction; isa.hpp tells
// whether that of this machine does.
MORTISE_INLINE F32x16 dot_pairs(F32x16 sum, I32x16 a, I32x16 b) {
#if defined(__AVX512BF16__)
  return {_mm512_dpbf16_ps(sum.v, (__m512bh)a.v, (__m512bh)b.v)};
#else
  return fma_exact_product(even_of(a), even_of(b), fma_exact_product(odd_of(a), odd_of(b), sum));
#endif
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
