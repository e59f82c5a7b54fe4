// tests/property/swaps.hpp: random swaps of a pipeline's parts while its requests run. None of them may change a bit.
#pragma once

#include <cstdint>
#include <random>

#include "assembly/assembly.hpp"
#include "engine/engine.hpp"

namespace mortise::test {

// A number from low to high, both included.
inline int between(std::mt19937& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint32_t>(high - low + 1));
}

struct SwapCounts {
  int made = 0;
  int refused = 0;     // because a live request would not have fitted, or sizes or idle steps allowed no comparison
  int verified = 0;    // of those made: new and old parts were equal in all steps that were compared
  int recomputed = 0;  // sequences that lost their KV
};

// Swaps parts and sizes of all kinds `count` times: other plugins and options, files that were built again, and now and
// then one that cannot be opened; some are verified before. Throws what a swap throws that should have been made.
// `device`: the pipeline's. Begins when the engine has run more than `num_steps`.
SwapCounts swap_at_random(Assembly& assembly, Engine& engine, const std::string& device, int count,
                          std::mt19937& random, std::uint64_t num_steps);

}  // namespace mortise::test
