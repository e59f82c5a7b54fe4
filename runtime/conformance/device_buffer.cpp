#include "conformance/device_buffer.hpp"

#include <algorithm>

#include "conformance/case.hpp"
#include "mortise/device.h"

namespace mortise::conformance {

constexpr std::uint8_t kPattern = 0x5c;

DeviceBuffer::DeviceBuffer(const PartInstance& device, std::size_t bytes, std::uint8_t fill)
    : device_(device), bytes_(bytes) {
  const auto* table = device.table<mortise_device_table>();
  void* memory = nullptr;
  device.perform("allocate", [&](mortise_error* error) {
    return table->allocate(device.handle<mortise_device>(), bytes + 2 * kGuard, &memory, error);
  });
  memory_ = static_cast<std::uint8_t*>(memory);
  array_ = memory_ + kGuard;
  std::vector<std::uint8_t> contents(bytes + 2 * kGuard, kPattern);
  std::fill_n(contents.begin() + kGuard, bytes, fill);
  copy(memory_, contents.data(), contents.size());
}

DeviceBuffer::~DeviceBuffer() {
  device_.table<mortise_device_table>()->free(device_.handle<mortise_device>(), memory_);
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
  expect(found == contents.end(), "byte {} behind the end of {} is overwritten", found - after, name);
}

void DeviceBuffer::copy(void* to, const void* from, std::size_t bytes) const {
  const auto* table = device_.table<mortise_device_table>();
  auto* const handle = device_.handle<mortise_device>();
  device_.perform("copy", [&](mortise_error* error) { return table->copy(handle, nullptr, to, from, bytes, error); });
  device_.perform("stream_synchronize",
                  [&](mortise_error* error) { return table->stream_synchronize(handle, nullptr, error); });
}

bool has_host_memory(const PartInstance& device) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  device.perform("describe", [&](mortise_error*) {
    return device.table<mortise_device_table>()->describe(device.handle<mortise_device>(), &info);
  });
  return info.host_memory != 0;
}

}  // namespace mortise::conformance
