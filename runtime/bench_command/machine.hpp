// runtime/bench_command/machine.hpp: the machine's processors, memory and caches, as the system reports them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mortise/device.h"

namespace mortise::bench {

std::string processor_name();     // from /proc/cpuinfo; "unknown processor" if it has none
std::size_t usable_processors();  // by affinity, at least 1
// Returns the device memory that weights can use now: the free memory that the device reports (the cpu device respects
// the limits of control groups). If the device cannot report it, MemAvailable of `meminfo` (/proc/meminfo); nullopt if
// that is missing too.
std::optional<std::uint64_t> available_memory(mortise_device* device, const mortise_device_table& table,
                                              const std::filesystem::path& meminfo);

struct Cache {
  int level;
  std::size_t bytes;
};
// Returns the data and unified caches of one processor, by level. `folder` is /sys/devices/system/cpu/cpu0/cache, which
// may be empty on virtual machines.
std::vector<Cache> read_caches(const std::filesystem::path& folder);

}  // namespace mortise::bench
