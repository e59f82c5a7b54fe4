// plugins/devices/cuda/algorithm_search.hpp: finds the fastest algorithm with the right bits for a product. It runs all
// of known_algorithms() and the first offers of cuBLASLt's heuristic. The heuristic alone is up to eight times slower
// (1B's down projection, 64 rows), because it prefers split-K, which gives other bits. A search takes milliseconds, for
// the largest products a fifth of a second.
#pragma once

#include "devices/cuda/algorithm_trial.hpp"

namespace mortise::cuda {

// Returns nullopt if no algorithm has the right bits.
AlgorithmChoice search_algorithm(AlgorithmTrial& trial);

}  // namespace mortise::cuda
