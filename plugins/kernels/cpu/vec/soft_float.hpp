// plugins/kernels/cpu/vec/soft_float.hpp: single f32 operations of the numerics specification in software: fused
// multiply-add without FMA hardware, and flushing of denormals without a control register for it. Used by the portable
// backend and the scalar references.
// REQUIRES: DenormalsOff (unless MORTISE_SOFT_FLUSH is defined).
//
// The FMAs. The product of two f32 values is exact in double (24 + 24 <= 53 bits; the exponent fits). What remains is p
// + c, rounded once to f32.
// - Where the product has at most 24 bits (two bf16: 8 + 8), round(double(p + c)) to f32 is right: if p + c needs more
//   than 53 bits, the smaller addend is below 2^-29 of the larger one, which is itself an f32 value; the sum, and its
//   rounding to double, then lie far closer to that value than to the nearest midpoint of two f32 values (2^-25), so
//   both roundings give it. Otherwise the double sum is exact and only one rounding happens.
// - For any product: the double sum is rounded to odd (TwoSum gives the error; if it is not zero and the last bit of
//   the sum is even, step towards the exact value), and 53 >= 24 + 2 makes the second rounding exact.
// Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
//   odd", IEEE Trans. Computers 57 (2008).
//
// Denormals. FMA hardware with flush-to-zero rounds to 24 bits with an unbounded exponent and then flushes what is
// below 2^-126; cvtsd2ss under the same control bits does precisely that to a double, and cvtss2sd reads a denormal as
// zero. So on x86 the conversions do it. AArch64 reads denormals as zeros, too, but flushes a result that is below
// 2^-126 before it is rounded. The two differ for exact results from 2^-126 - 2^-151 on, which round to 2^-126. A sum
// or difference of two f32 values is a multiple of 2^-149, and a quotient cannot be that close to a power of two from
// below (its distance is at least 2^-24 of it), so they are never there. Products and FMAs can be: narrow() rounds them
// by hand, as it does without a control register.
#pragma once

#include <cstdint>
#include <cstring>

#if !defined(MORTISE_ISA_NAMESPACE)
#error "soft_float.hpp is for the portable backend and the references: define MORTISE_ISA_NAMESPACE"
#endif

#if !defined(MORTISE_INLINE)
#define MORTISE_INLINE inline __attribute__((always_inline))
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// Whether the control register makes zeros of denormal operands and of tiny sums and quotients, and whether it flushes
// tiny results after rounding.
#if defined(MORTISE_SOFT_FLUSH)
constexpr bool kHardwareFlush = false, kFlushesAfterRounding = false;
#elif defined(__SSE2__)
constexpr bool kHardwareFlush = true, kFlushesAfterRounding = true;
#elif defined(__aarch64__)
constexpr bool kHardwareFlush = true, kFlushesAfterRounding = false;
#else
constexpr bool kHardwareFlush = false, kFlushesAfterRounding = false;
#endif

template <class To, class From>
MORTISE_INLINE To bit_cast_to(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Replaces a denormal by zero of the same sign.
MORTISE_INLINE float flush_denormal(float x) {
  const std::uint32_t u = bit_cast_to<std::uint32_t>(x);
  return bit_cast_to<float>((u & 0x7f800000u) ? u : (u & 0x80000000u));
}

// An operand as arithmetic sees it: denormals count as zero.
MORTISE_INLINE float operand(float x) {
  return kHardwareFlush ? x : flush_denormal(x);
}

// Rounds a double to f32 with denormals off. Results below 2^-126 after rounding to 24 bits are flushed, that is,
// values below 2^-126 - 2^-151 (at that midpoint, rounding to even gives 2^-126).
MORTISE_INLINE float narrow(double x) {
  if (kFlushesAfterRounding) return static_cast<float>(x);
  const double magnitude = bit_cast_to<double>(bit_cast_to<std::uint64_t>(x) & 0x7fffffffffffffffu);
  if (magnitude < 0x1p-126) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bit_cast_to<std::uint64_t>(x) >> 32) & 0x80000000u;
    return bit_cast_to<float>(magnitude < 0x1p-126 - 0x1p-151 ? sign : sign | 0x00800000u);
  }
  return static_cast<float>(x);
}

// a * b.
MORTISE_INLINE float soft_product(float a, float b) {
  return kFlushesAfterRounding ? a * b : narrow(static_cast<double>(operand(a)) * static_cast<double>(operand(b)));
}

// a * b + c, rounded once. REQUIRES: the product has at most 24 significant bits.
MORTISE_INLINE float soft_fma_exact_product(float a, float b, float c) {
  return narrow(static_cast<double>(operand(a)) * static_cast<double>(operand(b)) + static_cast<double>(operand(c)));
}

// a * b + c, rounded once.
MORTISE_INLINE float soft_fma(float a, float b, float c) {
  const double p = static_cast<double>(operand(a)) * static_cast<double>(operand(b));
  const double d = static_cast<double>(operand(c));
  const double s = p + d;
  const double d_part = s - p;
  const double error = (p - (s - d_part)) + (d - d_part);  // NaN if the sum is not finite
  const std::uint64_t u = bit_cast_to<std::uint64_t>(s);
  // 1: the exact value is nearer to zero than the sum.
  const std::uint64_t apart = (bit_cast_to<std::uint64_t>(error) ^ u) >> 63;
  const std::uint64_t even = ~u & 1u;
  const std::uint64_t step = even - 2 * (apart & even);
  return narrow(bit_cast_to<double>(u + (error < 0 || error > 0 ? step : 0)));
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
