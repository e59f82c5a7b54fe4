// plugins/devices/cuda/tuning_file.hpp: the choices of earlier starts in a file. A file belongs to one GPU, driver and
// version of cuBLASLt. It is a hint: the bits of every choice are checked before it is used.
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

// Returns $XDG_CACHE_HOME/mortise or ~/.cache/mortise; nullopt if the environment has no absolute path.
std::optional<std::filesystem::path> user_tuning_folder();
std::string tuning_file_name(const TuningKey& key);

// Reads the file; empty if there is none. Throws std::runtime_error that says what is wrong with the file.
AlgorithmChoices read_tuning(const std::filesystem::path& path, const TuningKey& key);

// Replaces the file as a whole. Throws std::runtime_error.
void write_tuning(const std::filesystem::path& path, const TuningKey& key, const AlgorithmChoices& choices);

}  // namespace mortise::cuda
