// plugins/devices/cpu/machine.hpp: the processors and the memory that this process may use, considering the limits of
// its control group.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mortise::cpu {

// The limits of the Linux control groups (version 1 or 2) of a process. nullopt: no limit.
struct CgroupLimits {
  std::optional<double> cpus;                 // processors' worth of time
  std::optional<std::uint64_t> memory_bytes;  // the tightest limit of the control group and its parents ...
  // ... and the memory that this group uses, without file pages that the group can drop
  std::optional<std::uint64_t> used_bytes;
};

// `membership` is /proc/self/cgroup, `mount` is /sys/fs/cgroup. If the mount does not have the control group (in a
// container that shows the host's names), the mount's root is used.
CgroupLimits read_cgroup_limits(const std::filesystem::path& membership, const std::filesystem::path& mount);

struct MachineMemory {
  std::uint64_t total_bytes;  // the most that this process could hold
  std::uint64_t free_bytes;   // what the process could still take now
};

int usable_cpus();  // by affinity and control group; at least 1
std::string cpu_name();
MachineMemory machine_memory();

}  // namespace mortise::cpu
