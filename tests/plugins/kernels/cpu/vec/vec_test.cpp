// Every operation of vec.hpp on every instruction set, against one lane at a time in plain C++ on this machine's FPU
// (fused multiply-add: against integer arithmetic), bit by bit.
// Covers: plugins/kernels/cpu/vec/{avx2,avx512,io,neon,portable}
#include <array>
#include <cfloat>
#include <cmath>

#include "kernel_test.hpp"
#include "probe_of_isa.hpp"

namespace mortise::cpu {
namespace {

using Lanes = std::array<std::uint32_t, 16>;
using Op = LaneOperation;

std::uint32_t bits_of(float x) {
  return x != x ? 0x7fc00000u : std::bit_cast<std::uint32_t>(x);
}
// By its bits: under denormals-as-zero fpclassify takes a denormal for a zero.
float flushed(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  return float_of((u & 0x7f800000u) != 0 ? u : u & 0x80000000u);
}
std::uint32_t mask_of(bool b) {
  return b ? 0xffffffffu : 0u;
}

// Rounded to 24 bits; what is below 2^-126 after that becomes zero.
float round_once(long double x) {
  if (!(std::fabs(x) < 0x1p-126L)) return static_cast<float>(x);
  return std::copysign(std::fabs(x) < 0x1p-126L - 0x1p-151L ? 0.0f : 0x1p-126f, std::signbit(x) ? -1.0f : 1.0f);
}

float exact_product(float a, float b) {
  return round_once(static_cast<long double>(flushed(a)) * flushed(b));  // 48 bits
}

// a * b + c rounded once, denormals off: in long double arithmetic with the error of the sum, rounded to odd. 64 bits
// are enough for a product of 48 and for rounding twice.
float exact_fma(float a, float b, float c) {
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) {
    return static_cast<float>(static_cast<double>(flushed(a)) * flushed(b) +
                              flushed(c));  // the product never overflows
  }
  const long double p = static_cast<long double>(flushed(a)) * flushed(b), d = flushed(c);
  long double s = p + d;
  const long double d_part = s - p;
  const long double error = (p - (s - d_part)) + (d - d_part);
  if (error != 0) {
    int exponent;
    const long double scaled = std::ldexp(std::frexp(s, &exponent), LDBL_MANT_DIG);  // a whole number
    if (std::fmod(scaled, 2.0L) == 0) s = std::nextafter(s, error > 0 ? HUGE_VALL : -HUGE_VALL);
  }
  return round_once(s);
}

std::uint32_t to_int(float x) {
  if (!(x >= -0x1p31f && x < 0x1p31f)) return 0x80000000u;
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::nearbyint(x)));
}

float tree(Lanes v, float (*combine)(float, float)) {
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i)
      v[i] = std::bit_cast<std::uint32_t>(combine(float_of(v[i]), float_of(v[i + half])));
  }
  return float_of(v[0]);
}
float larger(float a, float b) {
  return flushed(a > b ? a : b);
}

// The product of the low halves, signed.
std::uint32_t product_i16(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(static_cast<std::int16_t>(a) * static_cast<std::int16_t>(b));
}

// Lane i of the result; the caller has denormals off.
std::uint32_t lane(Op operation, const Lanes& a_bits, const Lanes& b_bits, const Lanes& c_bits, std::size_t i) {
  const std::uint32_t ia = a_bits[i], ib = b_bits[i], ic = c_bits[i];
  const float a = float_of(ia), b = float_of(ib), c = float_of(ic);
  switch (operation) {
    case Op::kAdd:
      return bits_of(a + b);
    case Op::kSub:
      return bits_of(a - b);
    case Op::kMul:
      return bits_of(exact_product(a, b));
    case Op::kDiv:
      return bits_of(a / b);
    case Op::kFma:
    case Op::kFmaExactProduct:
      return bits_of(exact_fma(a, b, c));
    case Op::kSqrt:
      return bits_of(std::sqrt(a));
    case Op::kMin:
      return bits_of(flushed(a < b ? a : b));
    case Op::kMax:
      return bits_of(larger(a, b));
    case Op::kLt:
      return mask_of(a < b);
    case Op::kLe:
      return mask_of(a <= b);
    case Op::kGt:
      return mask_of(a > b);
    case Op::kGe:
      return mask_of(a >= b);
    case Op::kEq:
      return mask_of(a == b);
    case Op::kSelect:
      return a < b ? ib : ic;
    case Op::kToInt:
      return to_int(a);
    case Op::kToFloat:
      return bits_of(static_cast<float>(static_cast<std::int32_t>(ia)));
    case Op::kSum:
      return bits_of(tree(a_bits, [](float x, float y) { return x + y; }));
    case Op::kMaxOfLanes:
      return bits_of(tree(a_bits, larger));
    case Op::kRoundBf16:
    case Op::kThroughBf16:
      return static_cast<std::uint32_t>(float_to_bf16(a)) << 16;
    case Op::kAddInt:
      return ia + ib;
    case Op::kSubInt:
      return ia - ib;
    case Op::kAnd:
      return ia & ib;
    case Op::kOr:
      return ia | ib;
    case Op::kXor:
      return ia ^ ib;
    case Op::kMulLo:
      return ia * ib;
    case Op::kMulHi:
      return static_cast<std::uint32_t>(std::uint64_t{ia} * ib >> 32);
    case Op::kMaxInt:
      return static_cast<std::int32_t>(ia) > static_cast<std::int32_t>(ib) ? ia : ib;
    case Op::kAddProductsI16:
      return ic + product_i16(ia, ib) + product_i16(ia >> 16, ib >> 16);
    case Op::kShiftLeft5:
      return ia << 5;
    case Op::kShiftRight5:
      return ia >> 5;
    case Op::kShiftRightSigned5:
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(ia) >> 5);
    case Op::kEqInt:
      return mask_of(ia == ib);
    case Op::kGtInt:
      return mask_of(static_cast<std::int32_t>(ia) > static_cast<std::int32_t>(ib));
    case Op::kCount:
      break;
  }
  return 0;
}

class KernelsVec : public OnEachIsa {};
MORTISE_ON_EACH_ISA(KernelsVec);

TEST_P(KernelsVec, EveryOperationIsIeeeArithmeticLaneByLaneWithDenormalsOff) {
  for (int op = 0; op < static_cast<int>(Op::kCount); ++op) {
    const Op operation = static_cast<Op>(op);
    std::mt19937 rng(7);
    for (int round = 0; round < 4000; ++round) {
      const Values values = kAllValues[round % 5];
      Lanes a, b, c, actual;
      for (std::size_t i = 0; i < 16; ++i) {
        a[i] = std::bit_cast<std::uint32_t>(draw(rng, values));
        b[i] = rng() % 8 == 0 ? a[i] : std::bit_cast<std::uint32_t>(draw(rng, values));
        c[i] = std::bit_cast<std::uint32_t>(draw(rng, values));
        if (round % 7 == 0) a[i] = static_cast<std::uint32_t>(rng()), b[i] = static_cast<std::uint32_t>(rng());
        // Sums that almost cancel, where rounding twice would show.
        if (round % 3 == 0) c[i] = std::bit_cast<std::uint32_t>(-float_of(a[i]) * float_of(b[i])) + rng() % 3;
        if (operation == Op::kFmaExactProduct) a[i] &= 0xffff0000u, b[i] &= 0xffff0000u;
        if (operation == Op::kToInt && round % 2 == 0)
          a[i] = std::bit_cast<std::uint32_t>(0.5f * static_cast<float>(rng() % 64));
      }
      probe(GetParam()).lanes(operation, a.data(), b.data(), c.data(), actual.data());
      for (std::size_t i = 0; i < 16; ++i) {
        ASSERT_EQ(lane(operation, a, b, c, i), actual[i])
            << "operation " << op << " of " << std::hex << a[i] << " " << b[i] << " " << c[i] << " lane " << i;
      }
    }
  }
}

// Products and FMAs whose exact results are just below 2^-126: from 2^-126 - 2^-151 on they round to it, and below that
// they are flushed. Some processors flush before they round, and would make zeros of all.
TEST_P(KernelsVec, ResultsThatRoundUpToTheSmallestNumberAreNotFlushed) {
  std::mt19937 rng(11);
  int num_up = 0, num_flushed = 0;
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  for (int round = 0; round < 2000; ++round) {
    Lanes a, b, c, zeros, near, actual;
    for (std::size_t i = 0; i < 16; ++i) {
      // left * right is the largest multiple of left below 2^47, or near the tie 2^47 - 2^22.
      const std::uint64_t left = (1u << 23) + rng() % (1u << 23);
      const std::uint64_t right = ((std::uint64_t{1} << 47) - (rng() % 2) * (1u << 22)) / left;
      const int shift = static_cast<int>(rng() % 60);
      const float sign = rng() % 2 == 0 ? 1.0f : -1.0f;
      a[i] = bits(sign * std::ldexp(static_cast<float>(left), -70 - shift));
      b[i] = bits(std::ldexp(static_cast<float>(right), -103 + shift));
      if (rng() % 16 == 0)
        a[i] = bits(sign * std::ldexp(1082401.0f, -80)), b[i] = bits(std::ldexp(31.0f, -71));  // the tie
      zeros[i] = rng() % 2 == 0 ? 0u : 0x80000000u;
      // A product that takes less than the last bit from 2^-126, or a little more than that.
      c[i] = bits(-sign * std::ldexp(1.0f + std::ldexp(static_cast<float>(rng() % 4), -23), -126));
      near[i] = bits(std::ldexp(static_cast<float>(left), static_cast<int>(rng() % 4) - 128 + shift));
    }
    for (const auto& [operation, right, addend] :
         {std::tuple(Op::kMul, b, zeros), std::tuple(Op::kFma, b, zeros), std::tuple(Op::kFma, near, c)}) {
      probe(GetParam()).lanes(operation, a.data(), right.data(), addend.data(), actual.data());
      for (std::size_t i = 0; i < 16; ++i) {
        const std::uint32_t expected = lane(operation, a, right, addend, i);
        ASSERT_EQ(expected, actual[i]) << static_cast<int>(operation) << " of " << std::hex << a[i] << " " << right[i]
                                       << " " << addend[i];
        num_up += (expected & 0x7fffffffu) == 0x00800000u;
        num_flushed += (expected & 0x7fffffffu) == 0;
      }
    }
  }
  EXPECT_GT(num_up, 5000);  // fewer: the draws miss the corner
  EXPECT_GT(num_flushed, 5000);
}

// Values at the end of a page that must not be read past: here, at the end of a heap block, which asan watches.
TEST_P(KernelsVec, TailsTouchTheirElementsOnly) {
  for (std::size_t n = 0; n <= 16; ++n) {
    std::vector<float> in(n), out(n + 1, -1.0f);
    std::vector<std::uint16_t> in_bf16(n), out_bf16(n + 1, 7);
    for (std::size_t i = 0; i < n; ++i)
      in[i] = static_cast<float>(i) + 0.5f, in_bf16[i] = static_cast<std::uint16_t>(0x3f80 + i);
    probe(GetParam()).tails(in.data(), out.data(), in_bf16.data(), out_bf16.data(), n);
    EXPECT_TRUE(same_bits(in.data(), out.data(), n));
    EXPECT_TRUE(same_bits(in_bf16.data(), out_bf16.data(), n));
    EXPECT_EQ(out[n], -1.0f);
    EXPECT_EQ(out_bf16[n], 7);
  }
}

}  // namespace
}  // namespace mortise::cpu
