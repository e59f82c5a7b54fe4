#include "bench_command/machine.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace mortise::bench {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Returns the bytes of "48K", "2M", "512"; 0 for any other text.
std::size_t parse_size(const std::string& text) {
  std::size_t bytes = 0, digits = 0;
  while (digits < text.size() && digits < 12 && text[digits] >= '0' && text[digits] <= '9') {
    bytes = bytes * 10 + static_cast<std::size_t>(text[digits++] - '0');
  }
  const std::string unit = text.substr(digits);
  return unit == "K" ? bytes << 10 : unit == "M" ? bytes << 20 : unit.empty() ? bytes : 0;
}

}  // namespace

std::string processor_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::size_t usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(CPU_COUNT(&set), 1));
}

std::optional<std::uint64_t> available_memory(mortise_device* device, const mortise_device_table& table,
                                              const std::filesystem::path& meminfo) {
  std::uint64_t free_bytes = 0, total_bytes = 0;
  if (table.memory_info(device, &free_bytes, &total_bytes) == MORTISE_OK) return free_bytes;
  std::ifstream stream(meminfo);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string name, unit;
    std::uint64_t amount = 0;
    if (words >> name >> amount >> unit && name == "MemAvailable:" && unit == "kB") return amount << 10;
  }
  return std::nullopt;
}

std::vector<Cache> read_caches(const std::filesystem::path& folder) {
  std::vector<Cache> caches;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with("index")) continue;
    if (first_line(entry.path() / "type") == "Instruction") continue;
    const std::size_t level = parse_size(first_line(entry.path() / "level"));
    const std::size_t bytes = parse_size(first_line(entry.path() / "size"));
    if (level > 0 && level < 10 && bytes > 0) caches.push_back({static_cast<int>(level), bytes});
  }
  std::sort(caches.begin(), caches.end(), [](const Cache& a, const Cache& b) { return a.level < b.level; });
  return caches;
}

}  // namespace mortise::bench
