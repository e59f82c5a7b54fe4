// plugins/devices/cpu/source_rows.hpp: finds and converts rows of the checkpoint's tensors that a weight is made of.
// For weights.cpp and int_weights.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "devices/checks/source_tensors.hpp"
#include "devices/cpu/cpu_device.hpp"

namespace mortise::cpu {

constexpr std::size_t kWeightTaskBytes = std::size_t{256} << 10;  // of a weight: some microseconds of work

// Returns the tensor that holds row `row` of the weight.
const SourceTensor& tensor_of(const std::vector<SourceTensor>& tensors, std::int64_t row);

// Converts rows of source tensors to another type. Each thread has a converter of its own, which is made before the
// work is shared out, because a task must not throw. Invariant: its buffers have room for one row of `columns`
// elements.
class RowConverter {
 public:
  RowConverter(const KernelTable& kernels, std::size_t columns)
      : kernels_(kernels.elementwise),
        raw_(std::make_unique_for_overwrite<float[]>(columns)),
        wide_(std::make_unique_for_overwrite<float[]>(columns)) {}

  void convert(const SourceTensor& tensor, std::int64_t row, int32_t dtype, void* out);

 private:
  const ElementwiseKernels& kernels_;
  std::unique_ptr<float[]> raw_, wide_;
};

std::vector<RowConverter> converters_for(const mortise_device& device, std::size_t columns);

}  // namespace mortise::cpu
