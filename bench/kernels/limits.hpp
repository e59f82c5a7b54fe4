// limits.hpp: what this machine allows, measured in the same run as what is compared with it.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cpu/isa.hpp"

namespace mortise::bench {

// Runs body(thread, round) on `threads` threads at once, again and again for about `seconds`, and returns the time in
// seconds of the fastest round, from the start of the first thread to the end of the last. Short rounds find the speed
// of the machine even while others use it.
double fastest_round(std::size_t threads, double seconds, const std::function<void(std::size_t, std::size_t)>& body);

double memory_read_bytes_per_s(std::size_t threads);
// f32 FMA, two operations each; on AMX the tile instruction.
double peak_flop_per_s(cpu::Isa isa, std::size_t threads);

}  // namespace mortise::bench
