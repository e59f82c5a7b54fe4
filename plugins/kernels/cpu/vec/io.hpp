// plugins/kernels/cpu/vec/io.hpp: loads and stores that are overloaded by element type, for kernels that are templates
// over bf16 and f32. Stores write the canonical NaN, so every stored bit is specified.
#pragma once

#include "kernels/cpu/vec/fp8.hpp"
#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

MORTISE_INLINE F32x16 read(const Bf16* p) {
  return load_bf16(p);
}
MORTISE_INLINE F32x16 read(const float* p) {
  return load(p);
}
MORTISE_INLINE F32x16 read(const std::int8_t* p) {
  return to_float(load_i8(p));
}
MORTISE_INLINE F32x16 read(const Fp8* p) {
  return widen_fp8<0>(load_u8(reinterpret_cast<const std::uint8_t*>(p)));
}
MORTISE_INLINE F32x16 read_tail(const Bf16* p, std::size_t n) {
  return load_bf16_tail(p, n);
}
MORTISE_INLINE F32x16 read_tail(const float* p, std::size_t n) {
  return load_tail(p, n);
}
// Reads 32 consecutive elements: those with an even index and those with an odd index. Cheaper than reading them in
// order.
MORTISE_INLINE void read_even_odd(const Bf16* p, F32x16& even, F32x16& odd) {
  const I32x16 pairs = load_i32(reinterpret_cast<const std::int32_t*>(p));
  even = from_bits(shift_left<16>(pairs));
  odd = from_bits(pairs & broadcast_i32(static_cast<std::int32_t>(0xffff0000u)));
}
MORTISE_INLINE void write(Bf16* p, F32x16 a) {
  store_bf16(p, a);
}
MORTISE_INLINE void write(float* p, F32x16 a) {
  store(p, canonical_nan(a));
}
MORTISE_INLINE void write_tail(Bf16* p, F32x16 a, std::size_t n) {
  store_bf16_tail(p, a, n);
}
MORTISE_INLINE void write_tail(float* p, F32x16 a, std::size_t n) {
  store_tail(p, canonical_nan(a), n);
}

// Writes 32 consecutive elements.
MORTISE_INLINE void write_pair(Bf16* p, F32x16 a, F32x16 b) {
#if defined(__AVX512BF16__)
  store_bf16_pair(p, a, b);
#else
  store_bf16(p, a);
  store_bf16(p + kLanes, b);
#endif
}
MORTISE_INLINE void write_pair(float* p, F32x16 a, F32x16 b) {
  write(p, a);
  write(p + kLanes, b);
}

// Rounds to the type and back: the value that a later reader of the stored element sees.
template <class T>
MORTISE_INLINE F32x16 rounded(F32x16 a);
template <>
MORTISE_INLINE F32x16 rounded<Bf16>(F32x16 a) {
  return round_bf16(a);
}
template <>
MORTISE_INLINE F32x16 rounded<float>(F32x16 a) {
  return a;
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
