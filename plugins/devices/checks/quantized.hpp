// quantized.hpp: what prepare_weight is given for a quantised weight, as far as every device checks it alike
// (docs/numerics.md, "Quantised linear", says what there is). Each throws Failure(INVALID_ARGUMENT).
#pragma once

#include <cstdint>
#include <vector>

#include "mortise/device.h"
#include "mortise/plugin.hpp"

namespace mortise {

// No group is longer: 2 * 255 * 127 * 2^15 < 2^31, so that no sum of a group wraps.
constexpr std::int64_t kMaxQuantizedGroup = 32768;

// The parts of source.quantized, by value; all of one format and order. REQUIRES: source.quantized is not null.
std::vector<mortise_quantized_matrix> read_quantized(const mortise_weight_source& source);

// Use, type, bits and groups of the source, for a weight [n, k].
void check_quantized_format(const mortise_weight_source& source, std::int64_t n, std::int64_t k);

// A permutation of 0 .. k - 1.
void check_quantized_order(const std::int32_t* order, std::int64_t k);

}  // namespace mortise
