// runtime/cli/repl/dialogue.hpp: the content of a dialogue, and the file that /save writes and /load reads.
//
// The file is JSON, made to be read and edited:
//   { "format": "mortise dialogue 1",
//     "model": "demo", "system_fingerprint": "mortise-...",   what made it; for the reader
//     "mode": "chat" | "complete",
//     "settings": { "temperature": 0 },                       what /set would show with a star
//     "messages": [ { "role": "user", "content": "..." } ],   the chat
//     "completions": [ { "prompt", "text", "finish_reason", "seed" } ] }
// The file is not trusted: size and depth are limited, and every field is checked before any is used.
#pragma once

#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace mortise {

enum class Mode { kComplete, kChat };

struct Completion {
  std::string prompt;
  std::string text;
  std::string finish_reason;
  std::uint64_t seed = 0;
};

// The state of a dialogue that /save stores. A value. Invariant: at most kMaxCompletions completions.
struct Dialogue {
  static constexpr std::size_t kMaxCompletions = 1000;  // older ones are dropped, since a pipe may bring millions

  Mode mode = Mode::kComplete;
  nlohmann::json messages = nlohmann::json::array();  // the chat in the form that a template takes
  std::deque<Completion> completions;

  void add(Completion completion);
};

struct SavedDialogue {
  Dialogue dialogue;
  nlohmann::json settings = nlohmann::json::object();
  std::string model;
  std::string system_fingerprint;
};

std::string to_text(const SavedDialogue& saved);
// Parses the file's text. Errors begin with `where`, the name of the file.
SavedDialogue parse_dialogue(const std::string& text, const std::string& where);

// Writes the file. Throws an Error if the file exists and `overwrite` is false, or if it cannot be written. Then there
// is no file, or the old one is unchanged.
void save_dialogue(const SavedDialogue& saved, const std::filesystem::path& file, bool overwrite);
SavedDialogue load_dialogue(const std::filesystem::path& file);

}  // namespace mortise
