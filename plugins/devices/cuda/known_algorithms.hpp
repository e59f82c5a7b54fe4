// plugins/devices/cuda/known_algorithms.hpp: the algorithms of cuBLASLt that are worth trying, and the fastest ones for
// the products of common models. A choice from here is a hint: at every start its bits are checked before it is used.
// shipped_choices.inc has choices for up to 768 rows of common models and for 8192 rows of an 8B Llama, measured on an
// H100 with cuBLASLt 13.1.0. They also serve on an H200, unmeasured: it has 132 multiprocessors as well.
#pragma once

#include <span>

#include "devices/cuda/algorithm.hpp"

namespace mortise::cuda {

// Returns the algorithms, the most useful first, none with split-K. Over 296 products of 28 shapes on an H100, the best
// of the first 36 takes on average 1.001, at most 1.05 times as long as the best of 1,796 configurations.
std::span<const LtConfig> known_algorithms();
// Returns the character for this place in shipped_choices.inc. REQUIRES: the place exists.
char known_algorithm_digit(std::size_t place);

// Returns the choices for products of common models (bench/kernels/cuda_algorithm_table.cpp lists them). Empty unless
// GPU and version of cuBLASLt are those that were measured: elsewhere the same numbers may mean slower or missing
// kernels, and a search finds better ones in milliseconds.
AlgorithmChoices shipped_choices(int multiprocessors, std::size_t cublaslt);

}  // namespace mortise::cuda
