// runtime/bench/machine.hpp: what the machine says of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mortise/device.h"

namespace mortise::bench {

std::string processor_name();     // of /proc/cpuinfo; "unknown processor" where it has none
std::size_t usable_processors();  // by affinity, at least 1
// What weights could take of a device's memory now: what it says is free, which for the processors' device minds the
// limits of control groups. Of one that cannot say, what the machine could give without swapping by `meminfo`, which is
// /proc/meminfo; nullopt where that does not say either.
std::optional<std::uint64_t> available_memory(mortise_device* device, const mortise_device_table& table,
                                              const std::filesystem::path& meminfo);

struct Cache {
  int level;
  std::size_t bytes;
};
// Of one processor, data and unified ones, by level. `folder` is /sys/devices/system/cpu/cpu0/cache; virtual machines
// may show none.
std::vector<Cache> read_caches(const std::filesystem::path& folder);

}  // namespace mortise::bench
