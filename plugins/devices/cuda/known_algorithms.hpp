// known_algorithms.hpp: the algorithms of cuBLASLt that are worth trying, and which of them are the fastest for the
// products of common models. A choice from here is a hint: its bits are checked at every start before it serves.
#pragma once

#include <span>

#include "devices/cuda/algorithm.hpp"

namespace mortise::cuda {

// The most useful first, none with split-K. For 296 products of 28 shapes on an H100, the best of the first 36 takes
// 1.001 of the time of the best of 1,796 configurations on average, and 1.05 at most.
std::span<const LtConfig> known_algorithms();
// How a line of shipped_choices.inc writes the algorithm at this place. REQUIRES: there is one.
char known_algorithm_digit(std::size_t place);

// The choices for products of common models (the list is in bench/kernels/cuda_algorithm_table.cpp). Empty unless the
// GPU and the version of cuBLASLt are those that were measured: elsewhere the same numbers may mean slower kernels, or
// none, and the search finds better ones in milliseconds.
Choices shipped_choices(int multiprocessors, std::size_t cublaslt);

}  // namespace mortise::cuda
