// plugins/kernels/cpu/vec/portable.hpp: the backend of vec.hpp for all other machines, and for the SSE2 baseline of
// x86: arrays, and one loop per operation that the compiler can vectorise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/vec/soft_float.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

struct F32x16 {
  float v[kLanes];
};
struct I32x16 {
  std::int32_t v[kLanes];
};
struct Mask16 {
  std::uint32_t v[kLanes];  // each is all ones or all zeros
};

// Applies `f` to each lane.
template <class To, class F>
MORTISE_INLINE To lanes(F f) {
  To r;
  for (std::size_t i = 0; i < kLanes; ++i) r.v[i] = f(i);
  return r;
}

MORTISE_INLINE std::uint32_t lane_mask(bool b) {
  return b ? 0xffffffffu : 0u;
}
MORTISE_INLINE std::uint32_t unsigned_of(std::int32_t x) {
  return static_cast<std::uint32_t>(x);
}
MORTISE_INLINE std::int32_t signed_of(std::uint32_t x) {
  return static_cast<std::int32_t>(x);
}

MORTISE_INLINE Mask16 first_lanes(std::size_t n) {
  return lanes<Mask16>([=](std::size_t i) { return lane_mask(i < n); });
}
MORTISE_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return lanes<Mask16>([&](std::size_t i) { return a.v[i] & b.v[i]; });
}
MORTISE_INLINE Mask16 operator|(Mask16 a, Mask16 b) {
  return lanes<Mask16>([&](std::size_t i) { return a.v[i] | b.v[i]; });
}
MORTISE_INLINE Mask16 operator!(Mask16 a) {
  return lanes<Mask16>([&](std::size_t i) { return ~a.v[i]; });
}
MORTISE_INLINE std::uint32_t mask_bits(Mask16 a) {
  std::uint32_t r = 0;
  for (std::size_t i = 0; i < kLanes; ++i) r |= (a.v[i] & 1u) << i;
  return r;
}
MORTISE_INLINE bool any(Mask16 a) {
  return mask_bits(a) != 0;
}

MORTISE_INLINE F32x16 load_tail(const float* p, std::size_t n) {
  F32x16 r = {};
  for (std::size_t i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
MORTISE_INLINE F32x16 load(const float* p) {
  F32x16 r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
MORTISE_INLINE void store_tail(float* p, F32x16 a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i] = a.v[i];
}
MORTISE_INLINE void store(float* p, F32x16 a) {
  std::memcpy(p, a.v, sizeof a.v);
}
MORTISE_INLINE F32x16 broadcast(float x) {
  return lanes<F32x16>([=](std::size_t) { return x; });
}

// Where no register turns denormals off: a tiny sum of two f32 values is exact, so it may be flushed afterwards. A tiny
// product or quotient is not exact, so narrow() must get it in double.
MORTISE_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return lanes<F32x16>([&](std::size_t i) {
    return kHardwareFlush ? a.v[i] + b.v[i] : flush_denormal(operand(a.v[i]) + operand(b.v[i]));
  });
}
MORTISE_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return lanes<F32x16>([&](std::size_t i) {
    return kHardwareFlush ? a.v[i] - b.v[i] : flush_denormal(operand(a.v[i]) - operand(b.v[i]));
  });
}
MORTISE_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return lanes<F32x16>([&](std::size_t i) { return soft_product(a.v[i], b.v[i]); });
}
MORTISE_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return lanes<F32x16>([&](std::size_t i) {
    return kHardwareFlush ? a.v[i] / b.v[i]
                          : narrow(static_cast<double>(operand(a.v[i])) / static_cast<double>(operand(b.v[i])));
  });
}
MORTISE_INLINE F32x16 fma_exact_product(F32x16 a, F32x16 b, F32x16 c) {
  return lanes<F32x16>([&](std::size_t i) { return soft_fma_exact_product(a.v[i], b.v[i], c.v[i]); });
}
MORTISE_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return lanes<F32x16>([&](std::size_t i) { return soft_fma(a.v[i], b.v[i], c.v[i]); });
}
MORTISE_INLINE F32x16 sqrt(F32x16 a) {
  return lanes<F32x16>([&](std::size_t i) { return __builtin_sqrtf(operand(a.v[i])); });
}
MORTISE_INLINE float min_lane(float a, float b) {
  return flush_denormal(operand(a) < operand(b) ? a : b);
}
MORTISE_INLINE float max_lane(float a, float b) {
  return flush_denormal(operand(a) > operand(b) ? a : b);
}
MORTISE_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return lanes<F32x16>([&](std::size_t i) { return min_lane(a.v[i], b.v[i]); });
}
MORTISE_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return lanes<F32x16>([&](std::size_t i) { return max_lane(a.v[i], b.v[i]); });
}
MORTISE_INLINE Mask16 lt(F32x16 a, F32x16 b) {
  return lanes<Mask16>([&](std::size_t i) { return lane_mask(operand(a.v[i]) < operand(b.v[i])); });
}
MORTISE_INLINE Mask16 le(F32x16 a, F32x16 b) {
  return lanes<Mask16>([&](std::size_t i) { return lane_mask(operand(a.v[i]) <= operand(b.v[i])); });
}
MORTISE_INLINE Mask16 gt(F32x16 a, F32x16 b) {
  return lt(b, a);
}
MORTISE_INLINE Mask16 ge(F32x16 a, F32x16 b) {
  return le(b, a);
}
MORTISE_INLINE Mask16 eq(F32x16 a, F32x16 b) {
  return lanes<Mask16>([&](std::size_t i) { return lane_mask(operand(a.v[i]) == operand(b.v[i])); });
}

MORTISE_INLINE I32x16 bits(F32x16 a) {
  I32x16 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
MORTISE_INLINE F32x16 from_bits(I32x16 a) {
  F32x16 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
MORTISE_INLINE I32x16 select(Mask16 m, I32x16 a, I32x16 b) {
  return lanes<I32x16>(
      [&](std::size_t i) { return signed_of((unsigned_of(a.v[i]) & m.v[i]) | (unsigned_of(b.v[i]) & ~m.v[i])); });
}
MORTISE_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return from_bits(select(m, bits(a), bits(b)));
}

MORTISE_INLINE I32x16 load_i32_tail(const std::int32_t* p, std::size_t n) {
  I32x16 r = {};
  std::memcpy(r.v, p, n * sizeof *p);
  return r;
}
MORTISE_INLINE I32x16 load_i32(const std::int32_t* p) {
  I32x16 r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
MORTISE_INLINE void store_tail(std::int32_t* p, I32x16 a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i] = a.v[i];
}
MORTISE_INLINE void store(std::int32_t* p, I32x16 a) {
  std::memcpy(p, a.v, sizeof a.v);
}
MORTISE_INLINE I32x16 broadcast_i32(std::int32_t x) {
  return lanes<I32x16>([=](std::size_t) { return x; });
}
MORTISE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) { return signed_of(unsigned_of(a.v[i]) + unsigned_of(b.v[i])); });
}
MORTISE_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) { return signed_of(unsigned_of(a.v[i]) - unsigned_of(b.v[i])); });
}
MORTISE_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) { return a.v[i] & b.v[i]; });
}
MORTISE_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) { return a.v[i] | b.v[i]; });
}
MORTISE_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) { return a.v[i] ^ b.v[i]; });
}
MORTISE_INLINE I32x16 mul_lo(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) { return signed_of(unsigned_of(a.v[i]) * unsigned_of(b.v[i])); });
}
// The products of halves are signed; their sum wraps.
MORTISE_INLINE I32x16 add_products_i16(I32x16 sum, I32x16 a, I32x16 b) {
  const auto product = [](std::uint32_t x, std::uint32_t y) {
    return unsigned_of(static_cast<std::int16_t>(x) * static_cast<std::int16_t>(y));
  };
  return lanes<I32x16>([&](std::size_t i) {
    const std::uint32_t x = unsigned_of(a.v[i]), y = unsigned_of(b.v[i]);
    return signed_of(unsigned_of(sum.v[i]) + product(x, y) + product(x >> 16, y >> 16));
  });
}
MORTISE_INLINE I32x16 max(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
MORTISE_INLINE I32x16 mul_hi_u32(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](std::size_t i) {
    const std::uint64_t product = static_cast<std::uint64_t>(unsigned_of(a.v[i])) * unsigned_of(b.v[i]);
    return signed_of(static_cast<std::uint32_t>(product >> 32));
  });
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_left(I32x16 a) {
  return lanes<I32x16>([&](std::size_t i) { return signed_of(unsigned_of(a.v[i]) << n); });
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right(I32x16 a) {
  return lanes<I32x16>([&](std::size_t i) { return signed_of(unsigned_of(a.v[i]) >> n); });
}
template <unsigned n>
MORTISE_INLINE I32x16 shift_right_signed(I32x16 a) {
  return lanes<I32x16>([&](std::size_t i) { return a.v[i] >> n; });
}
MORTISE_INLINE Mask16 eq(I32x16 a, I32x16 b) {
  return lanes<Mask16>([&](std::size_t i) { return lane_mask(a.v[i] == b.v[i]); });
}
MORTISE_INLINE Mask16 gt(I32x16 a, I32x16 b) {
  return lanes<Mask16>([&](std::size_t i) { return lane_mask(a.v[i] > b.v[i]); });
}
MORTISE_INLINE F32x16 to_float(I32x16 a) {
  return lanes<F32x16>([&](std::size_t i) { return static_cast<float>(a.v[i]); });
}
// Adding 1.5 * 2^52 leaves the nearest integer (ties to even) in the low bits of the double.
MORTISE_INLINE I32x16 to_int(F32x16 a) {
  return lanes<I32x16>([&](std::size_t i) {
    const float x = a.v[i];
    const double shifted = static_cast<double>(operand(x)) + 0x1.8p52;
    const std::uint32_t low = static_cast<std::uint32_t>(bit_cast_to<std::uint64_t>(shifted));
    return signed_of(x >= -0x1p31f && x < 0x1p31f ? low : 0x80000000u);
  });
}
MORTISE_INLINE I32x16 load_u8(const std::uint8_t* p) {
  return lanes<I32x16>([=](std::size_t i) { return static_cast<std::int32_t>(p[i]); });
}
MORTISE_INLINE I32x16 load_i8(const std::int8_t* p) {
  return lanes<I32x16>([=](std::size_t i) { return static_cast<std::int32_t>(p[i]); });
}
MORTISE_INLINE void store_i8(std::int8_t* p, I32x16 a) {
  for (std::size_t i = 0; i < kLanes; ++i) p[i] = static_cast<std::int8_t>(a.v[i]);
}
MORTISE_INLINE void store_i8_even_odd(std::int8_t* p, I32x16 even, I32x16 odd) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    p[2 * i] = static_cast<std::int8_t>(even.v[i]);
    p[2 * i + 1] = static_cast<std::int8_t>(odd.v[i]);
  }
}

MORTISE_INLINE float widen_f16(F16 h) {
  const std::uint32_t sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  const std::uint32_t exponent = magnitude >= 0x7c00u ? 255u - 31u : 127u - 15u;  // infinity and NaN; numbers
  if (magnitude >= 0x0400u) return bit_cast_to<float>(sign | ((magnitude << 13) + (exponent << 23)));
  return bit_cast_to<float>(sign | bit_cast_to<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
}
MORTISE_INLINE F32x16 load_f16(const F16* p) {
  return lanes<F32x16>([=](std::size_t i) { return widen_f16(p[i]); });
}
MORTISE_INLINE F32x16 load_bf16(const Bf16* p) {
  return lanes<F32x16>([&](std::size_t i) { return bit_cast_to<float>(static_cast<std::uint32_t>(p[i]) << 16); });
}
MORTISE_INLINE F32x16 load_bf16_tail(const Bf16* p, std::size_t n) {
  F32x16 r = {};
  for (std::size_t i = 0; i < n; ++i) r.v[i] = bit_cast_to<float>(static_cast<std::uint32_t>(p[i]) << 16);
  return r;
}
MORTISE_INLINE Bf16 narrow_bf16(float x) {
  const std::uint32_t u = bit_cast_to<std::uint32_t>(x);
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return static_cast<Bf16>((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
MORTISE_INLINE void store_bf16_tail(Bf16* p, F32x16 a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i] = narrow_bf16(a.v[i]);
}
MORTISE_INLINE void store_bf16(Bf16* p, F32x16 a) {
  store_bf16_tail(p, a, kLanes);
}

MORTISE_INLINE float add_lane(float a, float b) {
  return kHardwareFlush ? a + b : flush_denormal(operand(a) + operand(b));
}
MORTISE_INLINE float sum(F32x16 a) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) a.v[i] = add_lane(a.v[i], a.v[i + half]);
  }
  return a.v[0];
}
MORTISE_INLINE float max(F32x16 a) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) a.v[i] = max_lane(a.v[i], a.v[i + half]);
  }
  return a.v[0];
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
