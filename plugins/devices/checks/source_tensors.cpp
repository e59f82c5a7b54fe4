#include "devices/checks/source_tensors.hpp"

#include <string>

#include "mortise/plugin.hpp"

namespace mortise {
namespace {

SourceTensor read_source_tensor(const mortise_tensor* tensor, int index, bool vector, std::int64_t first_row) {
  const std::string name = "part " + std::to_string(index);
  if (tensor == nullptr) invalid(kPrepareWeight, name + " is missing");
  const std::int32_t dtype = tensor->dtype;
  if (dtype != MORTISE_BF16 && dtype != MORTISE_F16 && dtype != MORTISE_F32) {
    invalid(kPrepareWeight, name + " has dtype code " + std::to_string(dtype) + "; expected bf16, f16 or f32");
  }
  if (tensor->ndim != (vector ? 1 : 2)) {
    invalid(kPrepareWeight,
            name + " has " + std::to_string(tensor->ndim) + " dimensions; expected " + (vector ? "1" : "2"));
  }
  const std::int64_t rows = tensor->shape[0], columns = vector ? 1 : tensor->shape[1];
  if (rows < 1 || columns < 1 || tensor->data == nullptr) invalid(kPrepareWeight, name + " is empty");
  const SourceTensor read = {static_cast<const std::byte*>(tensor->data),
                             dtype,
                             first_row,
                             rows,
                             columns,
                             tensor->stride[0],
                             vector ? 1 : tensor->stride[1]};
  const __int128 last =
      static_cast<__int128>(rows - 1) * read.row_stride + static_cast<__int128>(columns - 1) * read.column_stride;
  if (read.row_stride < 0 || read.column_stride < 0 ||
      (last + 1) * dtype_bytes(dtype) > static_cast<__int128>(tensor->bytes)) {
    invalid(kPrepareWeight, name + " does not fit its " + std::to_string(tensor->bytes) + " bytes");
  }
  return read;
}

}  // namespace

std::vector<SourceTensor> read_source_tensors(const mortise_weight_source& source) {
  const bool vector = source.use == MORTISE_WEIGHT_VECTOR;
  if (source.num_parts < 1 || source.parts == nullptr) invalid(kPrepareWeight, "there are no parts");
  std::vector<SourceTensor> tensors;
  std::int64_t rows = 0;
  for (int i = 0; i < source.num_parts; ++i) {
    tensors.push_back(read_source_tensor(source.parts[i], i, vector, rows));
    rows += tensors.back().rows;
    if (tensors.back().columns != tensors[0].columns) {
      invalid(kPrepareWeight, "part " + std::to_string(i) + " has " + std::to_string(tensors.back().columns) +
                                  " columns, part 0 has " + std::to_string(tensors[0].columns));
    }
  }
  return tensors;
}

}  // namespace mortise
