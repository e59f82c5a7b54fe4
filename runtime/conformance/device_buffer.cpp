#include "conformance/device_buffer.hpp"

#include <algorithm>

#include "conformance/case.hpp"
#include "mortise/device.h"

namespace mortise::conformance {

constexpr std::uint8_t kPattern = 0x5c;

DeviceAccess::DeviceAccess(const PartInstance& instance)
    : device(instance.handle<mortise_device>()),
      table(instance.table<mortise_device_table>()),
      perform([&instance](const char* function, const auto& call) { instance.perform(function, call); }) {}

DeviceAccess::DeviceAccess(const Part& part)
    : device(part.handle<mortise_device>()),
      table(&part.table<mortise_device_table>()),
      perform([&part](const char* function, const auto& call) { part.perform(function, call); }) {}

DeviceBuffer::DeviceBuffer(const DeviceAccess& device, std::size_t bytes, std::uint8_t fill)
    : device_(device), bytes_(bytes) {
  void* memory = nullptr;
  device.perform("allocate", [&](mortise_error* error) {
    return device.table->allocate(device.device, bytes + 2 * kGuard, &memory, error);
  });
  memory_ = static_cast<std::uint8_t*>(memory);
  array_ = memory_ + kGuard;
  std::vector<std::uint8_t> contents(bytes + 2 * kGuard, kPattern);
  std::fill_n(contents.begin() + kGuard, bytes, fill);
  copy(memory_, contents.data(), contents.size());
}

DeviceBuffer::~DeviceBuffer() {
  device_.table->free(device_.device, memory_);
}

void DeviceBuffer::write(const void* from) {
  if (bytes_ > 0) copy(array_, from, bytes_);
}

std::vector<std::uint8_t> DeviceBuffer::read() const {
  std::vector<std::uint8_t> bytes(bytes_);
  if (bytes_ > 0) copy(bytes.data(), array_, bytes_);
  return bytes;
}

void DeviceBuffer::expect_guards(const char* name) const {
  std::vector<std::uint8_t> contents(bytes_ + 2 * kGuard);
  copy(contents.data(), memory_, contents.size());
  const auto changed = [](std::uint8_t byte) { return byte != kPattern; };
  const auto before = contents.begin() + kGuard, after = contents.end() - kGuard;
  expect(std::none_of(contents.begin(), before, changed), "bytes in front of {} are overwritten", name);
  const auto found = std::find_if(after, contents.end(), changed);
  expect(found == contents.end(), "byte {} after the end of {} is overwritten", found - after, name);
}

void DeviceBuffer::copy(void* to, const void* from, std::size_t bytes) const {
  device_.perform("copy", [&](mortise_error* error) {
    return device_.table->copy(device_.device, nullptr, to, from, bytes, error);
  });
  device_.perform("stream_synchronize", [&](mortise_error* error) {
    return device_.table->stream_synchronize(device_.device, nullptr, error);
  });
}

bool has_host_memory(const DeviceAccess& device) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  device.perform("describe", [&](mortise_error*) { return device.table->describe(device.device, &info); });
  return info.host_memory != 0;
}

}  // namespace mortise::conformance
