// plugins/kernels/cpu/vec/vec.hpp: sixteen lanes of f32 or of 32-bit integers, with the same bits on every instruction
// set.
//
// A kernel is written once over F32x16 and compiled once per instruction set (CMakeLists.txt). The build sets
// MORTISE_ISA_AVX512, _AVX2, _NEON or _PORTABLE, and MORTISE_ISA_NAMESPACE, the inline namespace of
// everything here and of every kernel. The namespace keeps the linker from using an inline function that was compiled
// for AVX-512 on the portable path. For the same reason a kernel file instantiates no std:: template and calls no
// inline function outside the namespace. It calls no libm; math.hpp replaces it.
//
// Each operation is a lane-wise IEEE operation, rounded to nearest even, with denormals off: kernels run under
// DenormalsOff (isa.hpp). The NaN that an operation returns is not specified, so kernels write to memory through
// store_bf16 or canonical_nan. Tails are masked, never scalar; lanes that are not loaded are zero.
//
// Functions of the backends (vec/avx512.hpp, vec/avx2.hpp, vec/neon.hpp, vec/portable.hpp):
//   F32x16  load, load_tail, store, store_tail, load_bf16, load_bf16_tail, store_bf16, store_bf16_tail, broadcast, zero
//           load_f16: widened, denormals included
//           + - * / (operators), fma(a, b, c) = a * b + c rounded once, sqrt
//           fma_exact_product: fma where the product of a and b fits 24 bits (two bf16 values); cheaper in software
//           fma_normal: fma where |c| >= 2^-60, so that the exact result is 0 or above 2^-126; cheaper on NEON
//           min(a, b) = a < b ? a : b, max(a, b) = a > b ? a : b: the second one if either is NaN or both are zero;
//           a denormal comes out as zero of its sign
//           lt le gt ge eq (false on NaN) -> Mask16; select(mask, if_true, if_false) moves bits
//           to_int: nearest even; out of range and NaN give INT32_MIN. bits / from_bits: reinterpretation
//           sum(v), max(v): one fixed tree: lane i with lane i + 8, then + 4, + 2, + 1; max(lower lane, higher lane)
//   I32x16  load_i32, load_i32_tail, store, store_tail, broadcast_i32, + - & | ^ (wrapping), mul_lo, mul_hi_u32,
//           max (signed), add_products_i16(sum, a, b) = sum + low a * low b + high a * high b, signed halves, wrapping,
//           shift_left<n>, shift_right<n> (zeros come in), shift_right_signed<n>, eq, gt (signed), select,
//           to_float (nearest even); load_u8, load_i8: sixteen bytes, widened; store_i8: lanes of -128 .. 127,
//           narrowed; store_i8_even_odd: those of two vectors in turn, 32 bytes
//   Mask16  first_lanes(n): lanes 0 .. n-1; & | ! ; any(m); mask_bits(m): bit i is lane i
// Everything ending in _tail takes n in 0..16 and touches the first n elements of memory only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/types.hpp"

#if !defined(MORTISE_ISA_NAMESPACE)
#error "vec.hpp is for files compiled once per instruction set: add the file to kernel_sources in CMakeLists.txt"
#endif

#define MORTISE_INLINE inline __attribute__((always_inline))
// For functions of many operations. On the portable path each operation is a loop, and copies of such a function in
// every caller take the compiler ten seconds a file; on the others it is inlined.
#if defined(MORTISE_ISA_PORTABLE)
#define MORTISE_LARGE_INLINE [[maybe_unused, gnu::noinline]] static
#else
#define MORTISE_LARGE_INLINE MORTISE_INLINE
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
constexpr std::size_t kLanes = 16;
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE

#if defined(MORTISE_ISA_AVX512)
#include "kernels/cpu/vec/avx512.hpp"
#elif defined(MORTISE_ISA_AVX2)
#include "kernels/cpu/vec/avx2.hpp"
#elif defined(MORTISE_ISA_NEON)
#include "kernels/cpu/vec/neon.hpp"
#elif defined(MORTISE_ISA_PORTABLE)
#include "kernels/cpu/vec/portable.hpp"
#else
#error "MORTISE_ISA_AVX512, MORTISE_ISA_AVX2, MORTISE_ISA_NEON or MORTISE_ISA_PORTABLE must be defined"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

#if !defined(MORTISE_ISA_NEON)
MORTISE_INLINE F32x16 fma_normal(F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}
#endif

MORTISE_INLINE F32x16 zero() {
  return broadcast(0.0f);
}
MORTISE_INLINE F32x16 neg(F32x16 a) {
  return from_bits(bits(a) ^ broadcast_i32(INT32_MIN));
}
MORTISE_INLINE F32x16 abs(F32x16 a) {
  return from_bits(bits(a) & broadcast_i32(INT32_MAX));
}
// The magnitude of a and the sign of b.
MORTISE_INLINE F32x16 copysign(F32x16 a, F32x16 b) {
  return from_bits((bits(a) & broadcast_i32(INT32_MAX)) | (bits(b) & broadcast_i32(INT32_MIN)));
}
MORTISE_INLINE Mask16 is_nan(F32x16 a) {
  return !eq(a, a);
}

// Every f32 that a kernel stores passes through this, because instruction sets differ in the sign and payload of a NaN.
MORTISE_INLINE F32x16 canonical_nan(F32x16 a) {
  return select(eq(a, a), a, from_bits(broadcast_i32(0x7fc00000)));
}

// Rounds a to bf16 (nearest even) and back; NaN becomes the canonical NaN.
MORTISE_INLINE F32x16 round_bf16(F32x16 a) {
#if defined(__AVX512BF16__)
  return widen_bf16(narrow_bf16(a));
#else
  const I32x16 u = bits(a);
  const I32x16 odd = shift_right<16>(u) & broadcast_i32(1);
  const I32x16 rounded = (u + broadcast_i32(0x7fff) + odd) & broadcast_i32(static_cast<std::int32_t>(0xffff0000u));
  return select(eq(a, a), from_bits(rounded), from_bits(broadcast_i32(0x7fc00000)));
#endif
}

// The number of elements in the next vector when `left` remain.
MORTISE_INLINE std::size_t lanes_left(std::size_t left) {
  return left < kLanes ? left : kLanes;
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
