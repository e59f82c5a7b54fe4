#include "engine/device_memory.hpp"

#include "error.hpp"

namespace mortise {

void check_part(mortise_status status, const mortise_error& error, const std::string& part) {
  if (status != MORTISE_OK) fail("{}: {}: {} (status {})", part, error.where, error.message, status);
}

mortise_tensor matrix(void* data, std::int32_t dtype, std::int64_t rows, std::int64_t columns) {
  mortise_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.ndim = 2;
  tensor.shape[0] = rows;
  tensor.shape[1] = columns;
  tensor.shape[2] = tensor.shape[3] = 1;
  tensor.stride[0] = columns;
  tensor.stride[1] = tensor.stride[2] = tensor.stride[3] = 1;
  tensor.bytes = static_cast<std::uint64_t>(rows * columns) * static_cast<std::uint64_t>((dtype & 0xff) / 8);
  return tensor;
}

void* DeviceBuffer::reserve(std::uint64_t bytes) {
  if (bytes <= bytes_) return data_;
  device_.api->free(device_.self, data_);
  data_ = nullptr;
  bytes_ = 0;
  mortise_error error = empty_error();
  check_part(device_.api->allocate(device_.self, bytes, &data_, &error), error, device_.name);
  bytes_ = bytes;
  return data_;
}

PackedUpload::PackedUpload(const DevicePart& device) : device_(device), buffer_(device) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  shared_ = device.api->describe(device.self, &info) == MORTISE_OK && info.host_memory != 0;
}

void PackedUpload::upload() {
  if (shared_) {
    device_base_ = bytes_.data();
    return;
  }
  device_base_ = static_cast<std::byte*>(buffer_.reserve(bytes_.size()));
  mortise_error error = empty_error();
  check_part(device_.api->copy(device_.self, nullptr, device_base_, bytes_.data(), bytes_.size(), &error), error,
             device_.name);
}

void download_bytes(const DevicePart& device, const void* from, void* to, std::uint64_t bytes) {
  mortise_error error = empty_error();
  check_part(device.api->copy(device.self, nullptr, to, from, bytes, &error), error, device.name);
  check_part(device.api->stream_synchronize(device.self, nullptr, &error), error, device.name);
}

}  // namespace mortise
