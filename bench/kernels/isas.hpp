// isas.hpp: the instruction sets that a kernel's benchmark runs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/isa.hpp"

namespace mortise::bench {

// Those that are named; without names all that the machine has but portable. nullopt, after a message on standard
// error, when one is unknown or missing here.
std::optional<std::vector<cpu::Isa>> isas_named(std::span<char*> names);

}  // namespace mortise::bench
