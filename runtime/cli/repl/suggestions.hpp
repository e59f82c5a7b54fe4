// runtime/cli/repl/suggestions.hpp: the suggestions of TAB. Knows the words of the commands, but nothing of terminals.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// A possible completion: `text` replaces the text between Suggestions::start and the cursor.
struct Suggestion {
  std::string text;
  bool is_whole = true;  // a space follows; false for "block_size=" and "folder/"

  bool operator==(const Suggestion&) const = default;
};

// The texts that may replace the line from byte `start` on. A value.
struct Suggestions {
  std::size_t start = 0;
  std::vector<Suggestion> items;

  // Returns the common beginning of all items.
  std::string common_prefix() const;
};

// The kind of a command's argument.
enum class Argument { kNone, kCommand, kField, kSeed, kChat, kPlugin, kProposer, kSwap, kDiff, kShow, kFile };

struct OptionWords {
  std::string name;
  std::vector<std::string> values;  // empty if there are many
  bool is_path = false;
};

struct PartWords {
  std::string key;   // "attention"
  std::string name;  // "" for keys without a plugin
  std::vector<OptionWords> options;
};

struct Words {
  std::vector<std::pair<std::string, Argument>> commands;                // "/set", ..
  std::vector<std::pair<std::string, std::vector<std::string>>> fields;  // for /set, with their values if there are few
  // Called only when needed, because they open files.
  std::function<std::vector<std::string>()> plugins = [] { return std::vector<std::string>(); };
  std::function<std::vector<PartWords>()> parts = [] { return std::vector<PartWords>(); };
};

// Returns suggestions for a line whose text before the cursor is `before`. There are none for prompts.
Suggestions suggest(std::string_view before, const Words& words);

// Returns `name` with the home folder in place of a leading "~/".
std::string expand_home(std::string_view name);

}  // namespace mortise
