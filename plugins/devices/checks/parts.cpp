#include "devices/checks/parts.hpp"

#include <string>

#include "mortise/plugin.hpp"

namespace mortise {
namespace {

Part read_part(const mortise_tensor* tensor, int index, bool vector, std::int64_t first_row) {
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
  const Part part = {static_cast<const std::byte*>(tensor->data),
                     dtype,
                     first_row,
                     rows,
                     columns,
                     tensor->stride[0],
                     vector ? 1 : tensor->stride[1]};
  const __int128 last =
      static_cast<__int128>(rows - 1) * part.row_stride + static_cast<__int128>(columns - 1) * part.column_stride;
  if (part.row_stride < 0 || part.column_stride < 0 ||
      (last + 1) * dtype_bytes(dtype) > static_cast<__int128>(tensor->bytes)) {
    invalid(kPrepareWeight, name + " does not fit its " + std::to_string(tensor->bytes) + " bytes");
  }
  return part;
}

}  // namespace

std::vector<Part> read_parts(const mortise_weight_source& source) {
  const bool vector = source.use == MORTISE_WEIGHT_VECTOR;
  if (source.num_parts < 1 || source.parts == nullptr) invalid(kPrepareWeight, "there are no parts");
  std::vector<Part> parts;
  std::int64_t rows = 0;
  for (int i = 0; i < source.num_parts; ++i) {
    parts.push_back(read_part(source.parts[i], i, vector, rows));
    rows += parts.back().rows;
    if (parts.back().columns != parts[0].columns) {
      invalid(kPrepareWeight, "part " + std::to_string(i) + " has " + std::to_string(parts.back().columns) +
                                  " columns, part 0 has " + std::to_string(parts[0].columns));
    }
  }
  return parts;
}

}  // namespace mortise
