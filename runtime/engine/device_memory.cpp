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

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) device_.api->host_free(device_.self, data_);
}

void* HostBuffer::reserve(std::uint64_t bytes) {
  if (bytes <= bytes_) return data_;
  if (data_ != nullptr) device_.api->host_free(device_.self, data_);
  data_ = nullptr;
  bytes_ = 0;
  mortise_error error = empty_error();
  check_part(device_.api->host_allocate(device_.self, bytes, &data_, &error), error, device_.name);
  bytes_ = bytes;
  return data_;
}

bool shares_host_memory(const DevicePart& device) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  return device.api->describe(device.self, &info) == MORTISE_OK && info.host_memory != 0;
}

PackedUpload::PackedUpload(const DevicePart& device)
    : device_(device), shared_(shares_host_memory(device)), buffer_(device), stages_{Stage(device), Stage(device)} {}

PackedUpload::~PackedUpload() {
  mortise_error error = empty_error();
  for (Stage& stage : stages_) {
    if (stage.sent == nullptr) continue;
    device_.api->event_synchronize(device_.self, stage.sent, &error);  // its memory is given back next
    device_.api->event_destroy(device_.self, stage.sent);
  }
}

void PackedUpload::upload() {
  if (shared_) {
    device_base_ = bytes_.data();
    return;
  }
  Stage& stage = stages_[next_stage_];
  next_stage_ = 1 - next_stage_;
  mortise_error error = empty_error();
  const auto check = [&](mortise_status status) { check_part(status, error, device_.name); };
  if (stage.sent == nullptr) {
    check(device_.api->event_create(device_.self, &stage.sent, &error));
  } else {
    check(device_.api->event_synchronize(device_.self, stage.sent, &error));
  }
  device_base_ = static_cast<std::byte*>(buffer_.reserve(bytes_.size()));
  void* const staged = stage.memory.reserve(bytes_.size());
  if (!bytes_.empty()) std::memcpy(staged, bytes_.data(), bytes_.size());
  check(device_.api->copy(device_.self, nullptr, device_base_, staged, bytes_.size(), &error));
  check(device_.api->event_record(device_.self, stage.sent, nullptr, &error));
}

Download::Download(const DevicePart& device) : device_(device), shared_(shares_host_memory(device)), memory_(device) {}

const void* Download::fetch_bytes(const void* from, std::uint64_t bytes) {
  mortise_error error = empty_error();
  void* to = nullptr;
  if (!shared_) {
    to = memory_.reserve(bytes);
    check_part(device_.api->copy(device_.self, nullptr, to, from, bytes, &error), error, device_.name);
  }
  check_part(device_.api->stream_synchronize(device_.self, nullptr, &error), error, device_.name);
  return shared_ ? from : to;
}

}  // namespace mortise
