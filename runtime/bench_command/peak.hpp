// runtime/bench_command/peak.hpp: the arithmetic units whose peak bounds a kernel, as loops that do nothing else.
#pragma once

#include <cstddef>
#include <vector>

namespace mortise::bench {

enum class Unit { kF32, kAvx2Fma, kAvx2Int8, kAvx512Fma, kAvx512Int8, kAmxBf16, kAmxInt8 };

const char* unit_name(Unit unit);  // "AVX-512 f32 FMA", ...

// Those of this machine that this process may use. The first call asks the kernel for permission to use the AMX tiles.
const std::vector<Unit>& available_units();

// Runs `rounds` rounds of independent multiply-adds in registers and returns how many operations that were (a
// multiply-add is two). REQUIRES: the unit is available. [any thread]
double run_unit(Unit unit, std::size_t rounds);

}  // namespace mortise::bench
