// algorithm_search.hpp: the fastest algorithm with the right bits for one product, found by running each of
// known_algorithms() and the first offers of cuBLASLt's heuristic. The heuristic alone is up to eight times slower
// (1B's down projection, 64 rows: it counts on split-K, which changes bits). A search takes milliseconds, for the
// largest products a fifth of a second.
#pragma once

#include "devices/cuda/algorithm_trial.hpp"

namespace mortise::cuda {

// Nothing if no algorithm has the bits.
Choice search_algorithm(AlgorithmTrial& trial);

}  // namespace mortise::cuda
