// plugins/devices/checks/environment.hpp: the environment variables that devices read. (The host's are in
// runtime/environment.hpp.) An empty variable counts as unset. [any thread, as long as no thread sets variables]
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace mortise::device_environment {

inline std::optional<std::string> read(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// Returns the instruction set that the device cpu must use, whatever its options say.
inline std::optional<std::string> forced_isa() {
  return read("MORTISE_ISA");
}

// Returns the kernels that the device cuda must use, whatever its options say.
inline std::optional<std::string> forced_cuda_isa() {
  return read("MORTISE_CUDA_ISA");
}

// Returns the user's cache folder: $XDG_CACHE_HOME, or ~/.cache. The XDG specification says that relative paths are
// ignored. nullopt: neither exists.
inline std::optional<std::filesystem::path> cache_folder() {
  const std::optional<std::string> named = read("XDG_CACHE_HOME");
  if (named && std::filesystem::path(*named).is_absolute()) return *named;
  const std::optional<std::string> home = read("HOME");
  if (!home || !std::filesystem::path(*home).is_absolute()) return std::nullopt;
  return std::filesystem::path(*home) / ".cache";
}

}  // namespace mortise::device_environment
