#include "devices/cpu/weight_parts.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::cpu {
namespace {

Part read_part(const mortise_tensor* tensor, int index, bool vector, std::size_t first_row) {
  const std::string name = "part " + std::to_string(index);
  if (tensor == nullptr) invalid(kPrepareWeight, name + " is missing");
  const int32_t dtype = tensor->dtype;
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
                     static_cast<std::size_t>(rows),
                     static_cast<std::size_t>(columns),
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

// Copies `count` elements, `stride` elements apart, to neighbouring ones.
template <typename T>
void gather_elements(const std::byte* from, std::int64_t stride, std::size_t count, void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<T*>(to) + i, from + static_cast<std::int64_t>(i * sizeof(T)) * stride, sizeof(T));
  }
}

}  // namespace

std::vector<Part> read_parts(const mortise_weight_source& source, bool vector) {
  if (source.num_parts < 1 || source.parts == nullptr) invalid(kPrepareWeight, "there are no parts");
  std::vector<Part> parts;
  std::size_t rows = 0;
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

void RowConverter::convert(const Part& part, std::size_t row, int32_t dtype, void* out) {
  const std::size_t n = part.columns;
  const void* from = part.at(row, 0);
  if (part.column_stride != 1 || part.dtype == dtype) {
    void* const to = part.dtype == dtype ? out : raw_.get();
    part.element_bytes() == 2 ? gather_elements<std::uint16_t>(part.at(row, 0), part.column_stride, n, to)
                              : gather_elements<float>(part.at(row, 0), part.column_stride, n, to);
    if (part.dtype == dtype) return;
    from = to;
  }
  float* const wide = dtype == MORTISE_F32 ? static_cast<float*>(out) : wide_.get();
  if (part.dtype == MORTISE_BF16) kernels_.bf16_to_f32(static_cast<const Bf16*>(from), wide, n);
  if (part.dtype == MORTISE_F16) kernels_.f16_to_f32(static_cast<const F16*>(from), wide, n);
  if (dtype == MORTISE_F32) return;
  const float* narrow_from = part.dtype == MORTISE_F32 ? static_cast<const float*>(from) : wide;
  kernels_.f32_to_bf16(narrow_from, static_cast<Bf16*>(out), n);
}

std::vector<RowConverter> converters_for(const mortise_device& device, std::size_t columns) {
  std::vector<RowConverter> converters;
  for (int i = 0; i < device.pool.num_threads(); ++i) converters.emplace_back(device.kernels, columns);
  return converters;
}

const Part& part_of(const std::vector<Part>& parts, std::size_t row) {
  return *std::find_if(parts.begin(), parts.end(), [=](const Part& part) { return row < part.first_row + part.rows; });
}

}  // namespace mortise::cpu
