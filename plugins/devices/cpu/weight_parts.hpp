// plugins/devices/cpu/weight_parts.hpp: rows of the parts that a weight is made of, in any type. For weights.cpp and
// int_weights.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "devices/checks/parts.hpp"
#include "devices/cpu/cpu_device.hpp"

namespace mortise::cpu {

constexpr std::size_t kWeightTaskBytes = std::size_t{256} << 10;  // of a weight: some microseconds of work

// The part that has `row` of the concatenation.
const Part& part_of(const std::vector<Part>& parts, std::int64_t row);

// Rows of parts in another type. Each thread has its own, made before the work is shared out: a task must not throw.
// Invariant: its buffers have room for one row of `columns` elements.
class RowConverter {
 public:
  RowConverter(const KernelTable& kernels, std::size_t columns)
      : kernels_(kernels.elementwise),
        raw_(std::make_unique_for_overwrite<float[]>(columns)),
        wide_(std::make_unique_for_overwrite<float[]>(columns)) {}

  void convert(const Part& part, std::int64_t row, int32_t dtype, void* out);

 private:
  const ElementwiseKernels& kernels_;
  std::unique_ptr<float[]> raw_, wide_;
};

std::vector<RowConverter> converters_for(const mortise_device& device, std::size_t columns);

}  // namespace mortise::cpu
