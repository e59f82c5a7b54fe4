// plugins/kernels/cpu/linear/pairs.hpp: the policies of linear/block.hpp for sums in pairs. With VDPBF16PS rows and
// weights are pairs of bf16; otherwise both are widened to f32 for FMA.
#pragma once

#include "kernels/cpu/linear/block.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

#if defined(__AVX512BF16__) || defined(MORTISE_EMULATED_DOT)  // tests run this form on machines without the instruction

// Has no state.
struct BitsInPairs {
  using Element = Bf16;
  using Row = Bf16;
  static constexpr bool kPairs = true;
  static constexpr std::size_t kPanels = kPairPanels;
  // Stores a widened pair.
  static MORTISE_INLINE void put(Bf16* w, F32x16 even, F32x16 odd) {
    store(reinterpret_cast<std::int32_t*>(w), join_pairs(even, odd));
  }
};
using WidenedPairs = BitsInPairs;

#else

// Has no state.
struct BitsInPairs : PackedBf16 {
  static constexpr bool kPairs = true;
  static constexpr std::size_t kPanels = kPairPanels;
};
// Weights that linear_widened has widened to f32. Has no state.
struct WidenedPairs : WidenedBits {
  static constexpr bool kPairs = true;
  static constexpr std::size_t kPanels = minimum(kPairPanels, 2);  // of f32 in the first-level cache
};

#endif

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
