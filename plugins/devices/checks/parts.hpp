// plugins/devices/checks/parts.hpp: float matrices or vectors of a checkpoint that a weight is made of, one below the
// other, as prepare_weight gets them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mortise/device.h"
#include "mortise/plugin.hpp"

namespace mortise {

constexpr char kPrepareWeight[] = "prepare_weight";

// One part of the concatenation in the checkpoint's memory, as rows of `columns` elements; a vector has one column.
struct Part {
  const std::byte* data;
  std::int32_t dtype;                      // bf16, f16 or f32
  std::int64_t first_row, rows, columns;   // first_row: of the concatenation
  std::int64_t row_stride, column_stride;  // elements

  std::size_t element_bytes() const { return static_cast<std::size_t>(dtype_bytes(dtype)); }
  const std::byte* at(std::int64_t row, std::int64_t column) const {
    return data + (row * row_stride + column * column_stride) * static_cast<std::int64_t>(element_bytes());
  }
};

// The parts of source.parts, at least one, all of as many columns. Throws Failure(INVALID_ARGUMENT) for a part that is
// missing or empty, has another type or number of dimensions, or does not lie within its `bytes`.
std::vector<Part> read_parts(const mortise_weight_source& source);

}  // namespace mortise
