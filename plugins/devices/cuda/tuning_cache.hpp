// tuning_cache.hpp: keeps what searches chose between starts, in tuning files (tuning_file.hpp): in the user's cache
// folder and beside the checkpoint, so that a container that starts anew finds them with its model; or in one folder
// that an option names. Used by the thread that runs steps.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "devices/cuda/tuning_file.hpp"
#include "mortise/host.h"

namespace mortise::cuda {

// The option tuning_cache.
struct TuningOption {
  bool enabled = true;
  std::string folder;  // empty: the standard ones
};

class TuningCache {
 public:
  // Reads the file of the folder that `option` names, else of the user's cache folder. `host` takes warnings; may be
  // null.
  TuningCache(TuningKey key, const TuningOption& option, const mortise_host* host);
  ~TuningCache();  // writes what keep() has not written yet
  TuningCache(const TuningCache&) = delete;
  TuningCache& operator=(const TuningCache&) = delete;

  // Reads the file beside a checkpoint, and writes there too if the folder can be written. Does nothing if the option
  // names a folder or wants no file.
  void add_checkpoint(const std::filesystem::path& folder);

  // What an earlier start chose; nullopt: nothing. The first files that were read come first.
  std::optional<Choice> find(const LinearShape& shape) const;
  // Keeps a choice for later starts. At most some writes a second: a model has dozens of products.
  void keep(const LinearShape& shape, const Choice& choice);
  // "in PATH", or why it is in no file.
  std::string place() const;

 private:
  void read(const std::filesystem::path& path);
  void write();
  void warn(const std::string& text) const;

  const TuningKey key_;
  const TuningOption option_;
  const mortise_host* const host_;
  std::vector<std::filesystem::path> paths_;  // that are written
  Choices choices_;
  bool unwritten_ = false, told_ = false;
  std::chrono::steady_clock::time_point written_at_{};
};

}  // namespace mortise::cuda
