// The rate of independent multiply-adds as linear uses them, without memory: on the portable path the software one.
#include "kernels/cpu/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

double fma_rounds(std::size_t rounds);
double fma_rounds(std::size_t rounds) {
  constexpr std::size_t kChains = sizeof(Mask16) == 2 ? 12 : 6;  // enough to hide the latency, few enough for registers
  F32x16 chains[kChains];
  for (F32x16& c : chains) c = broadcast(1.0f);
  const F32x16 factor = broadcast(0.5f);
  for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (F32x16& c : chains) c = fma_exact_product(factor, factor, c);
  }
  volatile float sink = 0;
  for (F32x16& c : chains) sink = sink + sum(c);
  return 2.0 * kLanes * kChains;
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
