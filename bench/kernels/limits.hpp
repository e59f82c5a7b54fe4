// limits.hpp: how fast a kernel is at best, and what this machine allows in the same run (`mortise bench` measures the
// latter with the same loops: runtime/bench_command/probes.hpp).
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cpu/isa.hpp"

namespace mortise::bench {

// Runs body(thread, round) on `threads` threads at once, again and again for about `seconds`, and returns the time in
// seconds of the fastest round, from the start of the first thread to the end of the last. Short rounds find the speed
// of the machine even while others use it.
double fastest_round(std::size_t threads, double seconds, const std::function<void(std::size_t, std::size_t)>& body);

// Each returns the fastest of many short rounds.
double memory_read_bytes_per_s(std::size_t threads);
// The peak of the unit in which the instruction set multiplies bf16 and f32: f32 FMA, on AMX the tiles.
double peak_flop_per_s(cpu::Isa isa, std::size_t threads);
// The peak for 8-bit integers; 0 where the instruction set has no unit for them.
double peak_int8_per_s(cpu::Isa isa, std::size_t threads);

}  // namespace mortise::bench
