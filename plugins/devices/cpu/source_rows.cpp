#include "devices/cpu/source_rows.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::cpu {
namespace {

// Copies `count` elements, `stride` elements apart, to neighbouring ones.
template <typename T>
void gather_elements(const std::byte* from, std::int64_t stride, std::size_t count, void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<T*>(to) + i, from + static_cast<std::int64_t>(i * sizeof(T)) * stride, sizeof(T));
  }
}

}  // namespace

void RowConverter::convert(const SourceTensor& tensor, std::int64_t row, int32_t dtype, void* out) {
  const auto n = static_cast<std::size_t>(tensor.columns);
  const void* from = tensor.at(row, 0);
  if (tensor.column_stride != 1 || tensor.dtype == dtype) {
    void* const to = tensor.dtype == dtype ? out : raw_.get();
    tensor.element_bytes() == 2 ? gather_elements<std::uint16_t>(tensor.at(row, 0), tensor.column_stride, n, to)
                                : gather_elements<float>(tensor.at(row, 0), tensor.column_stride, n, to);
    if (tensor.dtype == dtype) return;
    from = to;
  }
  float* const wide = dtype == MORTISE_F32 ? static_cast<float*>(out) : wide_.get();
  if (tensor.dtype == MORTISE_BF16) kernels_.bf16_to_f32(static_cast<const Bf16*>(from), wide, n);
  if (tensor.dtype == MORTISE_F16) kernels_.f16_to_f32(static_cast<const F16*>(from), wide, n);
  if (dtype == MORTISE_F32) return;
  const float* narrow_from = tensor.dtype == MORTISE_F32 ? static_cast<const float*>(from) : wide;
  kernels_.f32_to_bf16(narrow_from, static_cast<Bf16*>(out), n);
}

std::vector<RowConverter> converters_for(const mortise_device& device, std::size_t columns) {
  std::vector<RowConverter> converters;
  for (int i = 0; i < device.pool.num_threads(); ++i) converters.emplace_back(device.kernels, columns);
  return converters;
}

const SourceTensor& tensor_of(const std::vector<SourceTensor>& tensors, std::int64_t row) {
  return *std::find_if(tensors.begin(), tensors.end(),
                       [=](const SourceTensor& tensor) { return row < tensor.first_row + tensor.rows; });
}

}  // namespace mortise::cpu
