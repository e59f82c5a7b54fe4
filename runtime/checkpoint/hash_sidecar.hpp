// runtime/checkpoint/hash_sidecar.hpp: a small file that keeps the hash of a checkpoint's weights between starts. Each
// checkpoint folder has one, in the user's cache folder:
//   weights-HASH_OF_THE_FOLDER'S_PATH.json
//   {"mortise_weights_hash": 1, "folder", "identity", "hash", "check"}
// `identity` is Checkpoint::identity of the weight files; the file is stale if it differs. `check` is a hash of the
// other fields and detects damage. Several starts may read and write the file at the same time, because it is replaced
// as a whole.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace mortise {

// The file of one checkpoint folder. Each call opens it anew, so processes and threads may use it at the same time.
// Invariant: the file is absent or complete, because write() renames it into place.
class HashSidecar {
 public:
  // Returns $XDG_CACHE_HOME/mortise or ~/.cache/mortise; nullopt if the environment has no absolute path.
  static std::optional<std::filesystem::path> standard_folder();

  HashSidecar(const std::filesystem::path& cache_folder, const std::filesystem::path& checkpoint, std::string identity);

  const std::filesystem::path& path() const { return path_; }

  // Returns the hash that write() stored; nullopt if the file is absent, stale, damaged or another kind of file.
  std::optional<std::string> read() const;

  // Replaces the file, after creating the cache folder if necessary, and removes the files of checkpoints that no
  // longer exist. Throws an Error if the file cannot be written; the previous file then remains.
  void write(const std::string& hash) const;

 private:
  std::string folder_;  // canonical, so that a checkpoint has one file, however its path is written
  std::string identity_;
  std::filesystem::path path_;
};

}  // namespace mortise
