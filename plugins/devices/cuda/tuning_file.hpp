// tuning_file.hpp: what was chosen at earlier starts. A file belongs to one GPU, driver and version of cuBLASLt; it is
// a hint and never trusted: whatever it says is checked for equal bits before it is used.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "devices/cuda/algorithm.hpp"

namespace mortise::cuda {

struct TuningKey {
  std::string gpu;
  int driver = 0;
  std::size_t cublaslt = 0;
};

// $XDG_CACHE_HOME/mortise or ~/.cache/mortise; nothing if the environment names no absolute path.
std::optional<std::filesystem::path> user_tuning_folder();
std::string tuning_file_name(const TuningKey& key);

// What the file says; empty if there is none. Throws std::runtime_error with what is wrong with the file.
Choices read_tuning(const std::filesystem::path& path, const TuningKey& key);

// Replaces the file as a whole. Throws std::runtime_error.
void write_tuning(const std::filesystem::path& path, const TuningKey& key, const Choices& choices);

}  // namespace mortise::cuda
