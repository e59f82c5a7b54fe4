// runtime/bench/machine.hpp: what the machine says of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mortise::bench {

std::string processor_name();     // of /proc/cpuinfo; "unknown processor" where it has none
std::size_t usable_processors();  // by affinity, at least 1
// What could be taken now without swapping; `meminfo` is /proc/meminfo. nullopt where it does not say.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& meminfo);

struct Cache {
  int level;
  std::size_t bytes;
};
// Of one processor, data and unified ones, by level. `folder` is /sys/devices/system/cpu/cpu0/cache; virtual machines
// may show none.
std::vector<Cache> read_caches(const std::filesystem::path& folder);

}  // namespace mortise::bench
