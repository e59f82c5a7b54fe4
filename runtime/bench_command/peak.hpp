// runtime/bench_command/peak.hpp: the arithmetic units whose peak speed bounds kernels, with loops that do nothing
// else.
#pragma once

#include <cstddef>
#include <vector>

namespace mortise::bench {

enum class Unit {
  kF32,
  kNeonFma,
  kNeonInt8,
  kAvx2Fma,
  kAvx2Int8,
  kAvx512Fma,
  kAvx512Bf16,
  kAvx512Int8,
  kAmxBf16,
  kAmxInt8
};

const char* unit_name(Unit unit);  // "AVX-512 f32 FMA", ...

// Returns the units that this process may use. The first call asks Linux to allow AMX tiles.
const std::vector<Unit>& available_units();

// Runs `rounds` rounds of independent multiply-adds in registers. Returns the number of operations (a multiply-add is
// two).
// REQUIRES: the unit is available. [any thread]
double run_unit(Unit unit, std::size_t rounds);

// The unit with more operations a second on this thread, by the fastest of a few short runs: VDPBF16PS is slower than
// FMA on some processors. REQUIRES: both are available. [any thread]
Unit faster_of(Unit a, Unit b);

}  // namespace mortise::bench
