// weight_parts.hpp: what a weight is made of: float matrices of a checkpoint, one below the other, and their rows in
// any type. For weights.cpp and int_weights.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/matrix.hpp"

namespace mortise::cpu {

constexpr char kPrepareWeight[] = "prepare_weight";
constexpr std::size_t kWeightTaskBytes = std::size_t{256} << 10;  // of a weight: some microseconds of work

// One part of the concatenation, as rows of `columns` elements; a vector has one column.
struct Part {
  const std::byte* data;
  int32_t dtype;
  std::size_t first_row, rows, columns;
  std::int64_t row_stride, column_stride;  // elements

  std::size_t element_bytes() const { return static_cast<std::size_t>(dtype_bytes(dtype)); }
  const std::byte* at(std::size_t row, std::size_t column) const {
    const std::int64_t offset =
        static_cast<std::int64_t>(row) * row_stride + static_cast<std::int64_t>(column) * column_stride;
    return data + offset * static_cast<std::int64_t>(element_bytes());
  }
};

// Checked; throws Failure(INVALID_ARGUMENT).
std::vector<Part> read_parts(const mortise_weight_source& source, bool vector);

const Part& part_of(const std::vector<Part>& parts, std::size_t row);

// Rows of parts in another type. Each thread has its own, made before the work is shared out: a task must not throw.
class RowConverter {
 public:
  RowConverter(const KernelTable& kernels, std::size_t columns)
      : kernels_(kernels.elementwise),
        raw_(std::make_unique_for_overwrite<float[]>(columns)),
        wide_(std::make_unique_for_overwrite<float[]>(columns)) {}

  void convert(const Part& part, std::size_t row, int32_t dtype, void* out);

 private:
  const ElementwiseKernels& kernels_;
  std::unique_ptr<float[]> raw_, wide_;
};

std::vector<RowConverter> converters_for(const mortise_device& device, std::size_t columns);

}  // namespace mortise::cpu
