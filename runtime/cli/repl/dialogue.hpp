// runtime/cli/repl/dialogue.hpp: what has been said, and the file that /save writes and /load reads.
//
// The file is JSON, made to be read and edited:
//   { "format": "mortise dialogue 1",
//     "model": "demo", "system_fingerprint": "mortise-...",   what made it; for the reader
//     "mode": "chat" | "complete",
//     "settings": { "temperature": 0 },                       what /set would show with a star
//     "messages": [ { "role": "user", "content": "..." } ],   the chat
//     "completions": [ { "prompt", "text", "finish_reason", "seed" } ] }
// A file may come from anybody: size and depth are limited and every field is checked before anything is taken.
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

struct Dialogue {
  static constexpr std::size_t kMaxCompletions = 1000;  // the last ones; a pipe may bring millions

  Mode mode = Mode::kComplete;
  nlohmann::json messages = nlohmann::json::array();  // of the chat, as a template takes them
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
// `where` begins the texts of Errors: the file's name.
SavedDialogue parse_dialogue(const std::string& text, const std::string& where);

// Throws an Error when the file exists and `overwrite` is false, or when it cannot be written; then there is no file,
// or the old one as it was.
void save_dialogue(const SavedDialogue& saved, const std::filesystem::path& file, bool overwrite);
SavedDialogue load_dialogue(const std::filesystem::path& file);

}  // namespace mortise
