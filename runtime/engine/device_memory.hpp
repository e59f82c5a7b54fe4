// runtime/engine/device_memory.hpp: arrays of a step in the device's memory. On a device that shares the host's memory
// (mortise_device_info.host_memory) nothing is copied: both sides see the same bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/parts.hpp"
#include "loader/part_instance.hpp"

namespace mortise {

using DevicePart = ActivePart<mortise_device, mortise_device_table>;

// Owns device memory that grows and is never given back before destruction.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const DevicePart& device) : device_(device) {}
  ~DeviceBuffer() { device_.api->free(device_.self, data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // At least `bytes`; the contents are lost when it grows.
  void* reserve(std::uint64_t bytes);

 private:
  const DevicePart& device_;
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Host arrays packed into one buffer, so that a step costs one upload. put() all, upload() once, then ask for
// addresses.
class PackedUpload {
 public:
  explicit PackedUpload(const DevicePart& device);

  void clear() { bytes_.clear(); }
  // Copies the values; the result names the array until clear().
  template <typename T>
  std::size_t put(std::span<const T> values) {
    const std::size_t offset = (bytes_.size() + 63) / 64 * 64;
    bytes_.resize(offset + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + offset, values.data(), values.size_bytes());
    return offset;
  }
  void upload();
  template <typename T>
  const T* host(std::size_t offset) const {
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }
  template <typename T>
  T* device(std::size_t offset) {
    return reinterpret_cast<T*>(device_base_ + offset);
  }

 private:
  const DevicePart& device_;
  bool shared_;
  std::vector<std::byte> bytes_;
  DeviceBuffer buffer_;
  std::byte* device_base_ = nullptr;
};

// Copies `values.size()` elements back and waits for them.
void download_bytes(const DevicePart& device, const void* from, void* to, std::uint64_t bytes);
template <typename T>
void download(const DevicePart& device, const T* from, std::span<T> to) {
  download_bytes(device, from, to.data(), to.size_bytes());
}

// Throws an Error "<part>: <where>: <message>" unless `status` is OK.
void check_part(mortise_status status, const mortise_error& error, const std::string& part);

// A dense row-major 2-D tensor over device memory.
mortise_tensor matrix(void* data, std::int32_t dtype, std::int64_t rows, std::int64_t columns);

}  // namespace mortise
