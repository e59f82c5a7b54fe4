// machine.hpp: what this process may use of the machine: processors and memory, limits of its control group included.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace mortise::cpu {

// The limits that Linux control groups, version 1 or 2, put on a process; absent where there is none.
struct CgroupLimits {
  std::optional<double> cpus;                 // processor time per time
  std::optional<std::uint64_t> memory_bytes;  // the tightest limit of the group and its parents ...
  std::optional<std::uint64_t> used_bytes;    // ... and what that group holds, without file pages it can drop
};

// `membership` is /proc/self/cgroup, `mount` /sys/fs/cgroup. A group that the mount does not show (a container that
// sees the host's names) falls back to the mount's root.
CgroupLimits read_cgroup_limits(const std::filesystem::path& membership, const std::filesystem::path& mount);

struct MachineMemory {
  std::uint64_t total_bytes;  // what this process could hold at most
  std::uint64_t free_bytes;   // what it could still take now
};

int usable_cpus();  // By affinity and control group; at least 1.
std::string cpu_name();
MachineMemory machine_memory();

}  // namespace mortise::cpu
