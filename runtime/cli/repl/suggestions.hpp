// runtime/cli/repl/suggestions.hpp: what TAB offers. Knows the words of the commands and nothing of terminals.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// One way to go on: the text between Suggestions::start and the cursor becomes `text`.
struct Suggestion {
  std::string text;
  bool is_whole = true;  // nothing follows but a space; false: "block_size=", "folder/"

  bool operator==(const Suggestion&) const = default;
};

struct Suggestions {
  std::size_t start = 0;
  std::vector<Suggestion> items;

  // What all items begin with.
  std::string common_prefix() const;
};

// What a command's argument may be.
enum class Argument { kNone, kCommand, kField, kSeed, kChat, kPlugin, kProposer, kSwap, kDiff, kShow, kFile };

struct OptionWords {
  std::string name;
  std::vector<std::string> values;  // when they are few
  bool is_path = false;
};

struct PartWords {
  std::string key;   // "attention"
  std::string name;  // "" for keys that are tables without a plugin
  std::vector<OptionWords> options;
};

struct Words {
  std::vector<std::pair<std::string, Argument>> commands;                // "/set"
  std::vector<std::pair<std::string, std::vector<std::string>>> fields;  // of /set, with their values when few
  std::function<std::vector<std::string>()> plugins = [] { return std::vector<std::string>(); };  // asked when needed:
  std::function<std::vector<PartWords>()> parts = [] { return std::vector<PartWords>(); };        // opens files
};

// For a line whose text before the cursor is `before`. Prompts get none.
Suggestions suggest(std::string_view before, const Words& words);

// `name` with "~/" at its beginning as the home folder.
std::string expand_home(std::string_view name);

}  // namespace mortise
