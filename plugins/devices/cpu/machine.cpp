#include "devices/cpu/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace mortise::cpu {
namespace {

namespace fs = std::filesystem;

// Returns the number in the file. nullopt for "max" and for everything else that is not a number.
std::optional<std::uint64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

// Returns the number that follows `name` in a file of lines "name number".
std::optional<std::uint64_t> read_field(const fs::path& file, std::string_view name) {
  std::ifstream in(file);
  std::string word;
  std::uint64_t value = 0;
  while (in >> word) {
    if (word == name) return in >> value ? std::optional(value) : std::nullopt;
    in.ignore(1 << 16, '\n');
  }
  return std::nullopt;
}

// A cgroup hierarchy, and the file names that its version uses.
struct Hierarchy {
  fs::path mount;
  std::string control_group;  // "/a/b"
  bool version2;
};

// Lines of /proc/self/cgroup are "id:controllers:path"; version 2 has no controllers.
std::vector<Hierarchy> hierarchies(const fs::path& membership, const fs::path& mount, std::string_view controller) {
  std::vector<Hierarchy> found;
  std::ifstream in(membership);
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    const std::string control_group = line.substr(second + 1);
    if (second == first + 1) found.push_back({mount, control_group, /*version2=*/true});
    for (std::string name; std::getline(controllers, name, ',');) {
      if (name == controller) found.push_back({mount / name, control_group, /*version2=*/false});
    }
  }
  return found;
}

// Returns the control group's folder and its parent folders up to the root of the mount.
std::vector<fs::path> folders(const Hierarchy& hierarchy) {
  std::vector<fs::path> result;
  fs::path relative = fs::path(hierarchy.control_group).relative_path();
  for (; !relative.empty(); relative = relative.parent_path()) result.push_back(hierarchy.mount / relative);
  result.push_back(hierarchy.mount);
  return result;
}

std::optional<double> cpu_quota(const fs::path& folder, bool version2) {
  double quota = 0, period = 0;
  if (version2) {
    std::ifstream in(folder / "cpu.max");  // "max 100000" or "150000 100000"
    if (!(in >> quota >> period)) return std::nullopt;
  } else {
    std::ifstream quota_in(folder / "cpu.cfs_quota_us"), period_in(folder / "cpu.cfs_period_us");
    if (!(quota_in >> quota && period_in >> period)) return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

void take_memory_limit(const fs::path& folder, bool version2, CgroupLimits& limits) {
  const auto limit = read_number(folder / (version2 ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit || (limits.memory_bytes && *limits.memory_bytes <= *limit)) return;
  const auto used = read_number(folder / (version2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!used) return;
  const auto droppable =
      read_field(folder / "memory.stat", version2 ? "inactive_file" : "total_inactive_file").value_or(0);
  limits.memory_bytes = limit;
  limits.used_bytes = *used - std::min(*used, droppable);
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& membership, const fs::path& mount) {
  CgroupLimits limits;
  for (const Hierarchy& hierarchy : hierarchies(membership, mount, "cpu")) {
    for (const fs::path& folder : folders(hierarchy)) {
      const auto quota = cpu_quota(folder, hierarchy.version2);
      if (quota && (!limits.cpus || *quota < *limits.cpus)) limits.cpus = quota;
    }
  }
  for (const Hierarchy& hierarchy : hierarchies(membership, mount, "memory")) {
    for (const fs::path& folder : folders(hierarchy)) take_memory_limit(folder, hierarchy.version2, limits);
  }
  return limits;
}

int usable_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) cpus = CPU_COUNT(&allowed);
  const auto quota = read_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup").cpus;
  if (quota) cpus = std::min(cpus, static_cast<int>(std::ceil(std::min(*quota, 1e6))));
  return std::max(cpus, 1);
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

MachineMemory machine_memory() {
  const std::uint64_t physical =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  const auto available_kib = read_field("/proc/meminfo", "MemAvailable:");
  MachineMemory memory = {physical, available_kib ? *available_kib * 1024 : physical};
  const CgroupLimits limits = read_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup");
  if (limits.memory_bytes && *limits.memory_bytes < physical) {
    memory.total_bytes = *limits.memory_bytes;
    memory.free_bytes =
        std::min(memory.free_bytes, *limits.memory_bytes - std::min(*limits.memory_bytes, *limits.used_bytes));
  }
  return memory;
}

}  // namespace mortise::cpu
