// Compares VDPBF16PS with the FMA that class cpu-bf16-pairs/1 specifies. Intel documents the order of the instruction
// and AMD's agrees where it was measured, but what a processor does at the corners is not promised. Nor is the speed:
// Zen 4 computes a pair in half the time of two FMAs, Sapphire Rapids in twice their time. Compiled for AVX512-BF16.
#include <chrono>

#include "kernels/cpu/vec/pairs.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr int kRounds = 512;  // of sixteen pairs each

// A generator of Marsaglia: xorshift32.
std::uint32_t next(std::uint32_t& state) {
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

// Four kinds of numbers in turn: any bits (NaN, infinities and denormals among them), sizes near 1, products near the
// smallest normal number, and products near the largest.
std::uint32_t bf16_of(std::uint32_t random, int kind) {
  const std::uint32_t sign_and_fraction = random & 0x807fu, spread = random >> 8 & 15u;
  switch (kind) {
    case 0:
      return random & 0xffffu;
    case 1:
      return sign_and_fraction | (120u + spread) << 7;
    case 2:
      return sign_and_fraction | (56u + spread) << 7;
    default:
      return sign_and_fraction | (184u + spread) << 7;
  }
}

}  // namespace

bool dot_is_exact() {
  std::uint32_t state = 2463534242u;
  for (int round = 0; round < kRounds; ++round) {
    alignas(64) std::int32_t a[kLanes], b[kLanes];
    alignas(64) float sums[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      const int kind = round % 4;
      const auto pair = [&] {
        const std::uint32_t even = bf16_of(next(state), kind);
        return static_cast<std::int32_t>(even | bf16_of(next(state), kind) << 16);
      };
      a[i] = pair();
      b[i] = pair();
      const std::uint32_t sum = bf16_of(next(state), kind) << 16 | (next(state) & 0xffffu);
      std::memcpy(&sums[i], &sum, sizeof sum);
    }
    const I32x16 x = load_i32(a), w = load_i32(b);
    const F32x16 sum = load(sums);
    const F32x16 expected = fma(even_of(x), even_of(w), fma(odd_of(x), odd_of(w), sum));
    const Mask16 same = eq(bits(canonical_nan(dot_pairs(sum, x, w))), bits(canonical_nan(expected)));
    if (any(!same)) return false;
  }
  return true;
}

namespace {

constexpr std::size_t kSums = 12;  // independent, so that latencies do not count

// Seconds of some hundred steps, in each of which all sums get a pair by `add`. The fastest of a few tries: in the
// others somebody else may have used the processor.
template <class Add>
double seconds_of(Add add) {
  double fastest = 1e30;
  for (int attempt = 0; attempt < 8; ++attempt) {
    F32x16 sums[kSums];
    for (F32x16& sum : sums) sum = zero();
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < 256; ++step) {
#pragma GCC unroll 12
      for (F32x16& sum : sums) sum = add(sum);
#pragma GCC unroll 12
      for (F32x16& sum : sums) asm volatile("" : "+v"(sum.v));  // each step is computed
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fastest = seconds < fastest ? seconds : fastest;
  }
  return fastest;
}

}  // namespace

bool dot_is_fast() {
  I32x16 a = broadcast_i32(0x3f803f80), b = a;  // ones
  asm volatile("" : "+v"(a.v), "+v"(b.v));
  const F32x16 a_even = even_of(a), a_odd = odd_of(a), b_even = even_of(b), b_odd = odd_of(b);
  const double dot = seconds_of([&](F32x16 sum) { return dot_pairs(sum, a, b); });
  return dot < seconds_of([&](F32x16 sum) { return fma(a_even, b_even, fma(a_odd, b_odd, sum)); });
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
