// algorithm_search.hpp: the fastest algorithm with the right bits for one product, found by running some hundred: what
// the heuristic offers, what was best elsewhere, and the neighbours of the best of these. The heuristic alone is up to
// 2.3 times slower (K = 14336, N = 4096, few rows: it counts on split-K, which changes bits).
#pragma once

#include "devices/cuda/algorithm_trial.hpp"

namespace mortise::cuda {

// Nothing if no algorithm has the bits.
Choice search_algorithm(AlgorithmTrial& trial, const LinearShape& shape);

}  // namespace mortise::cuda
