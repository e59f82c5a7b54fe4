#include "conformance/device_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mortise/numerics.h"
#include "mortise/plugin.hpp"

namespace mortise::conformance {
namespace {

constexpr std::uint8_t kBetweenRows = 0x3d;

mortise_tensor tensor_of(void* data, std::int32_t dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                         std::size_t bytes) {
  mortise_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.ndim = 2;
  tensor.shape[0] = rows;
  tensor.shape[1] = columns;
  tensor.shape[2] = tensor.shape[3] = tensor.stride[1] = tensor.stride[2] = tensor.stride[3] = 1;
  tensor.stride[0] = stride;
  tensor.bytes = bytes;
  return tensor;
}

// Returns the matrix as the device stores it, with rows `stride` numbers apart.
std::vector<std::uint8_t> stored(const Matrix& matrix, std::int64_t stride) {
  const auto size = static_cast<std::size_t>(dtype_bytes(matrix.dtype)),
             row_bytes = static_cast<std::size_t>(stride) * size;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(matrix.rows) * row_bytes, kBetweenRows);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    mortise_store(matrix.row(r), matrix.dtype, matrix.columns, bytes.data() + static_cast<std::size_t>(r) * row_bytes);
  }
  return bytes;
}

}  // namespace

Matrix Matrix::rows_at(const std::vector<std::int64_t>& indices) const {
  Matrix some = zeros(dtype, static_cast<std::int64_t>(indices.size()), columns);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::copy_n(row(indices[i]), columns, some.row(static_cast<std::int64_t>(i)));
  }
  return some;
}

Matrix zeros(std::int32_t dtype, std::int64_t rows, std::int64_t columns) {
  return {dtype, rows, columns, std::vector<float>(static_cast<std::size_t>(rows * columns))};
}

Matrix draw_matrix(std::mt19937_64& random, std::int32_t dtype, std::int64_t rows, std::int64_t columns, float range) {
  Matrix matrix = zeros(dtype, rows, columns);
  std::uniform_real_distribution<float> number(-range, range);
  for (float& value : matrix.values) value = mortise_round(number(random), dtype == MORTISE_BF16);
  return matrix;
}

void expect_equal(const Matrix& expected, const Matrix& found, const char* what) {
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const auto a = mortise_bits_of(expected.values[i]), b = mortise_bits_of(found.values[i]);
    expect(a == b, "{}: row {}, column {} is {} (bits {:#010x}), expected {} (bits {:#010x})", what,
           static_cast<std::int64_t>(i) / expected.columns, static_cast<std::int64_t>(i) % expected.columns,
           found.values[i], b, expected.values[i], a);
  }
}

void expect_close(const Matrix& expected, const Matrix& found, double allowed, const char* what) {
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(expected.values[i]) - static_cast<double>(found.values[i]));
    expect(difference <= allowed, "{}: row {}, column {} is {}, expected {} within {}", what,
           static_cast<std::int64_t>(i) / expected.columns, static_cast<std::int64_t>(i) % expected.columns,
           found.values[i], expected.values[i], allowed);
  }
}

DeviceMatrix::DeviceMatrix(const DeviceAccess& device, const Matrix& values, std::int64_t gap)
    : dtype_(values.dtype),
      rows_(values.rows),
      columns_(values.columns),
      stride_(values.columns + gap),
      memory_(device, std::span<const std::uint8_t>(stored(values, stride_))) {
  tensor_ = tensor_of(memory_.data(), dtype_, rows_, columns_, stride_, memory_.size());
}

Matrix DeviceMatrix::read() const {
  const std::vector<std::uint8_t> bytes = memory_.read();
  memory_.expect_guards("a matrix");
  Matrix matrix = zeros(dtype_, rows_, columns_);
  const auto size = static_cast<std::size_t>(dtype_bytes(dtype_)), row_bytes = static_cast<std::size_t>(stride_) * size;
  for (std::int64_t r = 0; r < rows_; ++r) {
    const std::uint8_t* const row = bytes.data() + static_cast<std::size_t>(r) * row_bytes;
    mortise_load(row, dtype_, 1, columns_, matrix.row(r));
    const bool is_kept = std::all_of(row + static_cast<std::size_t>(columns_) * size, row + row_bytes,
                                     [](std::uint8_t byte) { return byte == kBetweenRows; });
    expect(is_kept, "bytes after row {} of a matrix with strided rows are overwritten", r);
  }
  return matrix;
}

DeviceWeight prepare(const DeviceAccess& device, const WeightForm& form, const std::vector<Matrix>& parts) {
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<mortise_tensor> tensors;
  std::vector<const mortise_tensor*> pointers;
  for (const Matrix& part : parts) {
    bytes.push_back(stored(part, part.columns));
    tensors.push_back(
        tensor_of(bytes.back().data(), part.dtype, part.rows, part.columns, part.columns, bytes.back().size()));
    if (form.use != MORTISE_WEIGHT_VECTOR) continue;
    tensors.back().ndim = 1;
    tensors.back().shape[0] = part.columns;
    tensors.back().shape[1] = tensors.back().stride[0] = 1;
  }
  for (const mortise_tensor& tensor : tensors) pointers.push_back(&tensor);
  mortise_weight_source source{};
  source.struct_size = sizeof source;
  source.use = form.use;
  source.num_parts = static_cast<std::int32_t>(parts.size());
  source.parts = pointers.data();
  source.dtype = form.dtype;
  source.bits = form.bits;
  source.group_size = form.group_size;
  source.value_type = form.value_type;
  mortise_weight* weight = nullptr;
  device.perform("prepare_weight", [&](mortise_error* error) {
    return device.table->prepare_weight(device.device, &source, &weight, error);
  });
  return {weight, [device](mortise_weight* prepared) { device.table->free_weight(device.device, prepared); }};
}

DeviceWeight prepare_vector(const DeviceAccess& device, const Matrix& values) {
  return prepare(device, {MORTISE_WEIGHT_VECTOR, values.dtype}, {values});
}

}  // namespace mortise::conformance
