// runtime/conformance/device_matrix.hpp: matrices of numbers on the host, and their copies on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "conformance/device_buffer.hpp"
#include "mortise/tensor.h"

namespace mortise::conformance {

// [rows][columns] numbers, each a value of dtype (MORTISE_BF16 or MORTISE_F32). Every NaN is the canonical NaN, so
// matrices can be compared bit by bit. A value.
struct Matrix {
  std::int32_t dtype = MORTISE_F32;
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values = {};

  float* row(std::int64_t r) { return values.data() + r * columns; }
  const float* row(std::int64_t r) const { return values.data() + r * columns; }
  // Returns these rows, in this order.
  Matrix rows_at(const std::vector<std::int64_t>& indices) const;
};

// Returns a matrix of random numbers of [-range, range].
Matrix draw_matrix(std::mt19937_64& random, std::int32_t dtype, std::int64_t rows, std::int64_t columns,
                   float range = 1);
Matrix zeros(std::int32_t dtype, std::int64_t rows, std::int64_t columns);

// Throws CaseFailed at the first number that differs in a bit, or that differs by more than `allowed`.
void expect_equal(const Matrix& expected, const Matrix& found, const char* what);
void expect_close(const Matrix& expected, const Matrix& found, double allowed, const char* what);

// A matrix in device memory. Invariant: what lies between and around its rows keeps one pattern. Used by one thread.
class DeviceMatrix {
 public:
  // `gap`: the numbers between two rows.
  DeviceMatrix(const DeviceAccess& device, const Matrix& values, std::int64_t gap = 0);

  const mortise_tensor* tensor() const { return &tensor_; }
  // Returns the numbers as they are now. Throws CaseFailed if something beside them was overwritten.
  Matrix read() const;

 private:
  const std::int32_t dtype_;
  const std::int64_t rows_, columns_, stride_;
  DeviceBuffer memory_;
  mortise_tensor tensor_{};
};

// A weight that the device has prepared.
using DeviceWeight = std::shared_ptr<mortise_weight>;

// Prepares a weight from its parts, concatenated by rows. `bits`, `value_type`, `group_size` as in
// mortise_weight_source.
struct WeightForm {
  std::int32_t use;
  std::int32_t dtype;
  std::int32_t bits = 0, group_size = 0, value_type = 0;
};
DeviceWeight prepare(const DeviceAccess& device, const WeightForm& form, const std::vector<Matrix>& parts);
// Prepares a vector from the only row of `values`.
DeviceWeight prepare_vector(const DeviceAccess& device, const Matrix& values);

// Copies the values into an array in device memory.
template <typename T>
DeviceBuffer on_device(const DeviceAccess& device, const std::vector<T>& values) {
  return DeviceBuffer(device, std::span<const T>(values));
}
template <typename T>
std::vector<T> values_of(const DeviceBuffer& buffer) {
  const std::vector<std::uint8_t> bytes = buffer.read();
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(values.data()));
  buffer.expect_guards("an output array");
  return values;
}

}  // namespace mortise::conformance
