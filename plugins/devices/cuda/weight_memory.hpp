// plugins/devices/cuda/weight_memory.hpp: memory of weights, for weights.cpp and int_weights.cpp.
#pragma once

#include <cstdint>

#include "devices/cuda/temporary.hpp"

namespace mortise::cuda {

// Allocates memory for a weight or for its preparation. Throws Failure(RESOURCE_EXHAUSTED), which says what would make
// room.
Temporary weight_memory(std::uint64_t bytes);

}  // namespace mortise::cuda
