// plugins/devices/checks/linear.hpp: checks of the arguments of linear.
#pragma once

#include <cstdint>

#include "devices/checks/weight.hpp"
#include "mortise/device.h"

namespace mortise {

// The columns of the weight that a product reads. A gated product reads all, gates first.
struct ColumnRange {
  std::int64_t begin, end;
};

// Returns the columns of the weight that a product reads. Throws Failure(INVALID_ARGUMENT). `weight` and `bias` are
// those of `args`.
ColumnRange check_linear(const mortise_linear_args& args, const WeightShape& weight, const WeightShape& bias);

}  // namespace mortise
