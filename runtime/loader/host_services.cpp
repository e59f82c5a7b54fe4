#include "loader/host_services.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace mortise {
namespace {

// Precedes every block of memory that a plugin gets.
struct BlockHeader {
  std::uint64_t bytes;
  void* start;  // pointer from malloc
};

spdlog::level::level_enum log_level(std::int32_t level) {
  switch (level) {
    case MORTISE_LOG_DEBUG:
      return spdlog::level::debug;
    case MORTISE_LOG_INFO:
      return spdlog::level::info;
    case MORTISE_LOG_WARNING:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

}  // namespace

HostServices& HostServices::self(const mortise_host* host) {
  return *static_cast<const Table*>(host)->self;
}

HostServices::HostServices(std::string instance_name, ExtensionHook extensions)
    : name_(std::move(instance_name)), extensions_(std::move(extensions)), table_{} {
  table_.struct_size = sizeof(mortise_host);
  table_.abi_minor = MORTISE_ABI_MINOR;
  table_.mortise_host::name = "mortise";
  table_.version = kVersion;
  table_.self = this;
  table_.log = [](const mortise_host* host, std::int32_t level, mortise_string_view message) {
    if (message.data == nullptr) return;
    try {
      spdlog::log(log_level(level), "{}: {}", self(host).name_,
                  std::string_view(message.data, static_cast<std::size_t>(message.size)));
    } catch (...) {  // a log line must not crash a plugin
    }
  };
  table_.allocate = [](const mortise_host* host, std::uint64_t bytes, std::uint64_t alignment) {
    return self(host).allocate(bytes, alignment);
  };
  table_.free = [](const mortise_host* host, void* memory) { self(host).release(memory); };
  table_.now_ns = [](const mortise_host*) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  };
  table_.get_ext = [](const mortise_host* host, const char* id) -> const void* {
    const auto& extensions = self(host).extensions_;
    return id != nullptr && extensions ? extensions(id) : nullptr;
  };
}

HostServices::~HostServices() {
  if (allocated_bytes() != 0) spdlog::warn("{}: destroyed with {} bytes of host memory", name_, allocated_bytes());
}

void* HostServices::allocate(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  constexpr std::uint64_t kMaxAlignment = 4096;
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) return nullptr;
  alignment = std::max<std::uint64_t>(alignment, alignof(BlockHeader));
  const std::uint64_t overhead = sizeof(BlockHeader) + alignment;
  if (bytes > PTRDIFF_MAX - overhead) return nullptr;
  void* start = std::malloc(bytes + overhead);
  if (start == nullptr) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(start) + overhead;
  char* memory = static_cast<char*>(start) + (overhead - address % alignment);
  const BlockHeader header{bytes, start};
  std::memcpy(memory - sizeof header, &header, sizeof header);
  allocated_bytes_ += bytes;
  return memory;
}

void HostServices::release(void* memory) noexcept {
  if (memory == nullptr) return;
  BlockHeader header;
  std::memcpy(&header, static_cast<char*>(memory) - sizeof header, sizeof header);
  allocated_bytes_ -= header.bytes;
  std::free(header.start);
}

}  // namespace mortise
