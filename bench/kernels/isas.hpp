// isas.hpp: the instruction sets that a kernel's benchmark runs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/kernels.hpp"

namespace mortise::bench {

// Returns the named instruction sets; without names, all that the machine has except portable. Returns nullopt, after a
// message on standard error, if this machine lacks one or a name is unknown.
std::optional<std::vector<cpu::Isa>> isas_named(std::span<char*> names);

// The orders of the sums of bf16 models, each a class of its own.
inline constexpr cpu::SumOrder kSumOrders[] = {cpu::SumOrder::kTiles, cpu::SumOrder::kPairs};
constexpr const char* name_of(cpu::SumOrder order) {
  return order == cpu::SumOrder::kTiles ? "tiles" : "pairs";
}

}  // namespace mortise::bench
