// plugins/devices/checks/source_tensors.hpp: the float matrices or vectors of a checkpoint that a weight is made of,
// one below the other, as prepare_weight gets them in mortise_weight_source.parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mortise/device.h"
#include "mortise/plugin.hpp"

namespace mortise {

constexpr char kPrepareWeight[] = "prepare_weight";

// One of a weight's tensors in the checkpoint's memory, as rows of `columns` elements; a vector has one column. A
// value; borrows the memory.
struct SourceTensor {
  const std::byte* data;
  std::int32_t dtype;                      // bf16, f16 or f32
  std::int64_t first_row, rows, columns;   // first_row: in the weight
  std::int64_t row_stride, column_stride;  // elements

  std::size_t element_bytes() const { return static_cast<std::size_t>(dtype_bytes(dtype)); }
  const std::byte* at(std::int64_t row, std::int64_t column) const {
    return data + (row * row_stride + column * column_stride) * static_cast<std::int64_t>(element_bytes());
  }
};

// Returns the tensors of source.parts: at least one, all with the same number of columns. Throws
// Failure(INVALID_ARGUMENT) for a tensor that is missing or empty, has another type or number of dimensions, or does
// not lie within its `bytes`.
std::vector<SourceTensor> read_source_tensors(const mortise_weight_source& source);

}  // namespace mortise
