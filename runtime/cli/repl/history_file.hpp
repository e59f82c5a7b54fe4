// runtime/cli/repl/history_file.hpp: a file with the entries of earlier dialogues. Each line is an entry as a JSON
// string, oldest first. The file is created with the first entry, is readable by its owner only, and is bounded: the
// oldest entries are removed. Other lines are skipped.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mortise {

// One history file. Several processes may use the same file at the same time; each object is used by one thread.
// Invariant: each line of the file is one JSON string.
class HistoryFile {
 public:
  // LineEditor has the same limit.
  static constexpr std::size_t kMaxEntries = 1000;
  static constexpr std::size_t kMaxEntryBytes = std::size_t{64} << 10;  // longer entries were pasted and are not kept
  static constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

  // Returns $XDG_STATE_HOME/mortise/history or ~/.local/state/mortise/history; nullopt if the environment has neither.
  static std::optional<std::filesystem::path> standard_path();

  explicit HistoryFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Returns at most kMaxEntries entries, oldest first; empty if there is no file yet. Throws an Error if the file
  // cannot be read.
  std::vector<std::string> load() const;
  // Appends an entry. Several dialogues may do so at the same time. Throws an Error if that fails.
  void append(const std::string& entry);

 private:
  void shorten() const;

  std::filesystem::path path_;
};

}  // namespace mortise
