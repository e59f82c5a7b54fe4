// kernel_test.hpp: what tests of kernels share: the instruction sets to run, inputs, bitwise comparison.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.hpp"

namespace mortise::cpu {

// A test case per instruction set of this machine; isa_test.cpp prints which there are and which are not.
class OnEachIsa : public testing::TestWithParam<Isa> {
 protected:
  const KernelTable& kernels() const { return mortise::cpu::kernels(GetParam()); }
  DenormalsOff denormals_off_;
};

constexpr SumOrder kSumOrders[] = {SumOrder::kTiles, SumOrder::kPairs};
inline const char* name_of(SumOrder order) {
  return order == SumOrder::kTiles ? "tiles" : "pairs";
}

// Whether the kernels with an emulated VDPBF16PS run here (CMakeLists.txt says for what they are compiled).
inline bool can_emulate_dot() {
#if defined(__x86_64__)
  return available_isas().size() > 1;
#else
  return true;
#endif
}

#define MORTISE_ON_EACH_ISA(fixture)                                                          \
  INSTANTIATE_TEST_SUITE_P(Isa, fixture, testing::ValuesIn(::mortise::cpu::available_isas()), \
                           [](const auto& info) { return std::string(::mortise::cpu::isa_name(info.param)); })

inline float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline float bf16_to_float(Bf16 h) {
  return float_of(static_cast<std::uint32_t>(h) << 16);
}
inline Bf16 float_to_bf16(float x) {
  if (x != x) return 0x7fc0;
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  return static_cast<Bf16>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

// What the numbers of an input look like.
enum class Values {
  kNormal,   // normal(0, 1)
  kTiny,     // products and sums around the smallest normal number, denormals among them
  kHuge,     // products and sums around the largest number
  kWide,     // any exponent
  kSpecial,  // normal, with zeros of both signs, denormals, infinities and NaN strewn in
};
constexpr Values kAllValues[] = {Values::kNormal, Values::kTiny, Values::kHuge, Values::kWide, Values::kSpecial};

inline float draw(std::mt19937& rng, Values values) {
  std::normal_distribution<float> normal(0, 1);
  const float x = normal(rng);
  const auto exponent = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
  switch (values) {
    case Values::kNormal:
      return x;
    case Values::kTiny:
      return std::ldexp(x, exponent(-70, -58) - (exponent(0, 9) == 0 ? 66 : 0));
    case Values::kHuge:
      return std::ldexp(x, exponent(58, 66));
    case Values::kWide:
      return std::ldexp(x, exponent(-126, 120));
    case Values::kSpecial:
      break;
  }
  constexpr std::uint32_t special[] = {0x00000000, 0x80000000, 0x00410000, 0x80410000, 0x00800000,
                                       0x7f800000, 0xff800000, 0x7fc00000, 0xffc10000};
  return exponent(0, 63) == 0 ? float_of(special[exponent(0, 8)]) : x;
}

template <class T>
std::vector<T> random_values(std::mt19937& rng, std::size_t n, Values values = Values::kNormal) {
  std::vector<T> v(n);
  for (T& x : v) {
    const float f = draw(rng, values);
    if constexpr (sizeof(T) == sizeof(Bf16)) {
      x = float_to_bf16(f);
    } else {
      x = f;
    }
  }
  return v;
}

// Equal bits, NaN included; the first difference is shown.
template <class T>
testing::AssertionResult same_bits(const T* expected, const T* actual, std::size_t n) {
  using Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>>;
  std::size_t different = 0, first = 0;
  for (std::size_t i = n; i-- > 0;) {
    if (std::memcmp(&expected[i], &actual[i], sizeof(T)) != 0) ++different, first = i;
  }
  if (different == 0) return testing::AssertionSuccess();
  char text[160];
  std::snprintf(text, sizeof text, "%zu of %zu differ, the first at %zu: expected %08x, is %08x", different, n, first,
                static_cast<unsigned>(std::bit_cast<Bits>(expected[first])),
                static_cast<unsigned>(std::bit_cast<Bits>(actual[first])));
  return testing::AssertionFailure() << text;
}
template <class T>
testing::AssertionResult same_bits(const std::vector<T>& expected, const std::vector<T>& actual) {
  if (expected.size() != actual.size()) return testing::AssertionFailure() << "sizes differ";
  return same_bits(expected.data(), actual.data(), expected.size());
}

// 64-byte aligned memory, filled with a pattern: what a kernel does not write stays visible.
template <class T>
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t n) : storage_(n * sizeof(T) + 64, 0xa5) {}
  T* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return reinterpret_cast<T*>((address + 63) / 64 * 64);
  }

 private:
  std::vector<unsigned char> storage_;
};

}  // namespace mortise::cpu
