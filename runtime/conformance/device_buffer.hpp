// runtime/conformance/device_buffer.hpp: device memory with guard bytes on both sides, so that a part that writes
// beyond it is found on a GPU, too, where there are no guard pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "conformance/part.hpp"
#include "loader/part_instance.hpp"

namespace mortise::conformance {

// A device to call. It serves the part under test, or is that part.
struct DeviceAccess {
  DeviceAccess(const PartInstance& instance);  // NOLINT: a device is its own access
  DeviceAccess(const Part& part);              // NOLINT

  mortise_device* device;
  const mortise_device_table* table;
  // Makes a call that must succeed: throws an Error or CaseFailed otherwise.
  std::function<void(const char* function, const std::function<mortise_status(mortise_error*)>& call)> perform;
};

// Memory of a device for one array. Invariant: kGuard bytes before and after the array belong to nobody and hold one
// pattern. Used by one thread. Throws an Error where the device fails.
class DeviceBuffer {
 public:
  static constexpr std::size_t kGuard = 512;

  // Fills the array with `fill`. It is 256-byte aligned. The device outlives the buffer.
  DeviceBuffer(const DeviceAccess& device, std::size_t bytes, std::uint8_t fill = 0xa5);
  template <typename T>
  DeviceBuffer(const DeviceAccess& device, std::span<const T> values) : DeviceBuffer(device, values.size_bytes()) {
    write(values.data());
  }
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <typename T = void>
  T* data() const {
    return static_cast<T*>(array_);
  }
  std::size_t size() const { return bytes_; }  // in bytes
  void write(const void* from);                // writes the whole array
  std::vector<std::uint8_t> read() const;      // waits for the work of the default stream
  // Throws CaseFailed if a guard byte has changed. `name`: "the KV cache".
  void expect_guards(const char* name) const;

 private:
  void copy(void* to, const void* from, std::size_t bytes) const;

  const DeviceAccess device_;
  std::size_t bytes_;
  std::uint8_t* memory_ = nullptr;
  void* array_ = nullptr;
};

// Returns whether the device computes in host memory.
bool has_host_memory(const DeviceAccess& device);

}  // namespace mortise::conformance
