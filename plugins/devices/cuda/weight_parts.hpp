// weight_parts.hpp: what a weight is made of: float matrices or vectors of a checkpoint, one below the other. For
// weights.cpp and int_weights.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "devices/cuda/temporary.hpp"
#include "mortise/device.h"

namespace mortise::cuda {

constexpr char kPrepareWeight[] = "prepare_weight";

struct Part {
  const std::byte* data;
  int32_t dtype;
  std::int64_t rows, columns, row_stride, column_stride;  // strides in elements; a vector has one column
};

// Memory that a weight takes, or its preparation. Throws Failure(RESOURCE_EXHAUSTED), which says what would make room.
Temporary weight_memory(std::uint64_t bytes);

// Checked; throws Failure(INVALID_ARGUMENT).
std::vector<Part> checked_parts(const mortise_weight_source& source);

}  // namespace mortise::cuda
