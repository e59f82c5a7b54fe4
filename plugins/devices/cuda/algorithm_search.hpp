// plugins/devices/cuda/algorithm_search.hpp: finds the fastest algorithm with the right bits for a product. It times
// the 39 known_algorithms() and the first two offers of cuBLASLt's heuristic without split-K, on random numbers. The
// heuristic alone is up to eight times slower (1B's down projection, 64 rows), because it prefers split-K, which gives
// other bits. A search takes 5 to 30 ms, and 0.15 s for 8192 rows of an 8B model.
#pragma once

#include "devices/cuda/algorithm_trial.hpp"

namespace mortise::cuda {

// Returns nullopt if no algorithm has the right bits.
AlgorithmChoice search_algorithm(AlgorithmTrial& trial);

}  // namespace mortise::cuda
