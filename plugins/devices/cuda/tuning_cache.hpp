// plugins/devices/cuda/tuning_cache.hpp: keeps the results of searches between starts, in tuning files
// (tuning_file.hpp). A file is in the user's cache folder, and another one beside the checkpoint, so that a new
// container finds it together with its model. An option can name one folder instead. The log reports a file that is
// damaged, wrong or from another machine; such a file is then made again. If there is no folder to write to, the log
// says so once. Used by the thread that runs steps.
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
  std::string folder;  // empty: the standard folders
};

// The choices in memory and the files that keep them. Invariant: if a write is pending, unwritten_ is true. Used only
// by the thread that runs steps.
class TuningCache {
 public:
  // Reads the file in the folder of `option`, or else in the user's cache folder. `host` takes warnings; it may be
  // null.
  TuningCache(TuningKey key, const TuningOption& option, const mortise_host* host);
  ~TuningCache();  // writes what keep() has not written yet
  TuningCache(const TuningCache&) = delete;
  TuningCache& operator=(const TuningCache&) = delete;

  // Also reads the file beside a checkpoint, and writes there if the folder is writable. Does nothing if the option
  // names a folder or switches the files off.
  void add_checkpoint(const std::filesystem::path& folder);

  // Returns the choice of an earlier start, or nullopt. Files that were read first take precedence.
  std::optional<AlgorithmChoice> find(const LinearShape& shape) const;
  // Keeps a choice for later starts. A model adds dozens of choices at its start, so the file is written at most a few
  // times a second.
  void keep(const LinearShape& shape, const AlgorithmChoice& choice);
  // Returns "in PATH", or the reason why nothing is stored.
  std::string place() const;

 private:
  void read(const std::filesystem::path& path);
  void write();
  void warn(const std::string& text) const;

  const TuningKey key_;
  const TuningOption option_;
  const mortise_host* const host_;
  std::vector<std::filesystem::path> paths_;  // the files to write
  AlgorithmChoices choices_;
  bool unwritten_ = false, told_ = false;
  std::chrono::steady_clock::time_point written_at_{};
};

}  // namespace mortise::cuda
