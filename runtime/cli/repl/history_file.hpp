// runtime/cli/repl/history_file.hpp: the entries of earlier dialogues, in a file that outlives them.
// One entry a line, as a JSON string, oldest first. It is made when the first entry is kept, readable by its owner
// alone, and bounded: the oldest entries go. Lines that are no JSON strings are passed over.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mortise {

class HistoryFile {
 public:
  // LineEditor keeps as many.
  static constexpr std::size_t kMaxEntries = 1000;
  static constexpr std::size_t kMaxEntryBytes = std::size_t{64} << 10;  // a longer one is not kept: it was pasted
  static constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

  // $XDG_STATE_HOME/mortise/history, or ~/.local/state/mortise/history; nullopt when the environment says neither.
  static std::optional<std::filesystem::path> standard_path();

  explicit HistoryFile(std::filesystem::path path) : path_(std::move(path)) {}

  // The entries, oldest first, at most kMaxEntries; none when there is no file yet. Throws an Error when there is one
  // that cannot be read.
  std::vector<std::string> load() const;
  // Adds an entry at the end. Several dialogues may do so at once. Throws an Error when it cannot.
  void append(const std::string& entry);

 private:
  void shorten() const;

  std::filesystem::path path_;
};

}  // namespace mortise
