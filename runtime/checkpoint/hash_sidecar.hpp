// runtime/checkpoint/hash_sidecar.hpp: a small file that keeps the hash of a checkpoint's weights between starts. There
// is one file for each checkpoint folder, in a cache folder of the user:
//   weights-HASH_OF_THE_FOLDER'S_PATH.json
//   {"mortise_weights_hash": 1, "folder", "identity", "hash", "check"}
// `identity` is that of the weight files (Checkpoint::identity): a file whose identity differs is stale. `check` is a
// hash of the other fields, which finds damage. Starts at the same time may read and write the file: it is replaced as
// a whole.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace mortise {

class HashSidecar {
 public:
  // $XDG_CACHE_HOME/mortise or ~/.cache/mortise; nullopt: the environment names no absolute path.
  static std::optional<std::filesystem::path> standard_folder();

  HashSidecar(const std::filesystem::path& cache_folder, const std::filesystem::path& checkpoint, std::string identity);

  const std::filesystem::path& path() const { return path_; }

  // The hash that write() kept; nullopt when the file is absent, stale, damaged or not one of these.
  std::optional<std::string> read() const;

  // Replaces the file, creating the cache folder if necessary, and removes the files of checkpoints that no longer
  // exist. Throws an Error when the file cannot be written; then the previous file is still there.
  void write(const std::string& hash) const;

 private:
  std::string folder_;  // canonical, so that one checkpoint has one file however its path is spelled
  std::string identity_;
  std::filesystem::path path_;
};

}  // namespace mortise
