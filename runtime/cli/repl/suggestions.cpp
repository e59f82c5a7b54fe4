#include "cli/repl/suggestions.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "environment.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

// Collects the suggestions that begin with the given text. Used by one thread.
class Collector {
 public:
  Collector(std::size_t start, std::string_view given) : given_(given) { result_.start = start; }

  void offer(const std::string& text, bool is_whole = true) {
    if (text.starts_with(given_)) result_.items.push_back({text, is_whole});
  }
  void offer_all(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) offer(text);
  }
  Suggestions take() {
    const auto by_text = [](const Suggestion& a, const Suggestion& b) { return a.text < b.text; };
    std::sort(result_.items.begin(), result_.items.end(), by_text);
    result_.items.erase(std::unique(result_.items.begin(), result_.items.end()), result_.items.end());
    return std::move(result_);
  }

 private:
  std::string_view given_;
  Suggestions result_;
};

bool can_be_typed(const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return tokenizer::is_valid_utf8(name) && std::none_of(name.begin(), name.end(), is_control);
}

// Suggests files whose names begin with `given`, which is at `start` of the line. Suggests hidden files only if `given`
// begins with a dot.
Suggestions suggest_files(std::size_t start, std::string_view given) {
  Collector found(start, given);
  const std::size_t slash = given.rfind('/');
  const std::string folder(slash == given.npos ? "" : given.substr(0, slash + 1));
  const std::string_view name = given.substr(folder.size());
  std::error_code error;
  const std::string place = folder.empty() ? "." : expand_home(folder);
  for (fs::directory_iterator entry(place, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (file.starts_with('.') && !name.starts_with('.')) continue;
    if (!can_be_typed(file)) continue;
    std::error_code unknown;
    const bool is_folder = entry->is_directory(unknown);
    found.offer(folder + file + (is_folder ? "/" : ""), !is_folder);
  }
  return found.take();
}

Suggestions suggest_option(std::size_t start, std::string_view given, const PartWords& part) {
  const std::size_t equals = given.find('=');
  if (equals == given.npos) {
    Collector names(start, given);
    for (const OptionWords& option : part.options) names.offer(option.name + "=", /*is_whole=*/false);
    return names.take();
  }
  const std::size_t value = equals + 1;
  for (const OptionWords& option : part.options) {
    if (option.name != given.substr(0, equals)) continue;
    if (option.is_path) return suggest_files(start + value, given.substr(value));
    Collector values(start + value, given.substr(value));
    values.offer_all(option.values);
    return values.take();
  }
  return {};
}

std::vector<PartWords> parts_of(std::string_view key, const Words& words) {
  std::vector<PartWords> parts = words.parts();
  std::erase_if(parts, [&](const PartWords& part) { return part.key != key; });
  return parts;
}

// `start` is the start of the word at the cursor, `index` the number of words between the command and that word.
Suggestions suggest_proposer(std::string_view before, std::size_t start, std::size_t index, const Words& words) {
  const std::vector<PartWords> proposers = parts_of("proposer", words);
  const std::string_view given = before.substr(start);
  if (index == 0) {
    if (given.find('/') != given.npos) return suggest_files(start, given);  // file of a plugin
    Collector names(start, given);
    names.offer("none");
    names.offer("first_of");
    for (const PartWords& part : proposers) names.offer(part.name);
    return names.take();
  }
  const std::size_t name_start = before.find_first_not_of(' ', before.find(' '));
  const std::string_view name = before.substr(name_start, before.find(' ', name_start) - name_start);
  for (const PartWords& part : proposers) {
    if (part.name == name) return suggest_option(start, given, part);
  }
  return {};
}

// Returns a value in Lua's notation: text in quotes.
std::string lua_value(const std::string& value) {
  const bool is_text = !value.starts_with('"') && !nlohmann::json::accept(value);
  return is_text ? "\"" + value + "\"" : value;
}

// Suggests an option, or its value, inside the braces of a change.
Suggestions suggest_in_table(std::string_view before, std::size_t open, const std::vector<OptionWords>& options) {
  const std::size_t comma = before.find_last_of("{,;");
  const std::size_t equals = before.find_last_of('=');
  if (equals == before.npos || equals < comma) {
    const std::size_t start = std::max(before.find_last_of(" {,;") + 1, open + 1);
    Collector names(start, before.substr(start));
    for (const OptionWords& option : options) names.offer(option.name + " = ", /*is_whole=*/false);
    return names.take();
  }
  std::string_view name = before.substr(comma + 1, equals - comma - 1);
  name = name.substr(std::min(name.find_first_not_of(' '), name.size()));
  name = name.substr(0, name.find(' '));
  const std::size_t start = std::min(before.find_first_not_of(' ', equals + 1), before.size());
  for (const OptionWords& option : options) {
    if (option.name != name) continue;
    // `start` is at the opening quote, and the path begins after it.
    if (option.is_path && start < before.size()) return suggest_files(start + 1, before.substr(start + 1));
    Collector values(start, before.substr(start));
    for (const std::string& value : option.values) values.offer(lua_value(value), /*is_whole=*/false);
    return values.take();
  }
  return {};
}

std::size_t count_words(std::string_view text) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); ++i) n += text[i] != ' ' && (i == 0 || text[i - 1] == ' ') ? 1 : 0;
  return n;
}

std::string_view word_at(std::string_view text, std::size_t index) {
  std::size_t start = 0;
  while (true) {
    start = std::min(text.find_first_not_of(' ', start), text.size());
    const std::size_t end = std::min(text.find_first_of(" {", start), text.size());
    if (index-- == 0) return text.substr(start, end - start);
    start = end;
  }
}

// Returns the position of the innermost open brace; npos if there is none.
std::size_t open_brace(std::string_view text) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') open.push_back(i);
    if (text[i] == '}' && !open.empty()) open.pop_back();
  }
  return open.empty() ? text.npos : open.back();
}

// Suggests the parts of a change, KEY PLUGIN {option = value}, that begins at `begin`.
Suggestions suggest_change(std::string_view before, std::size_t begin, const Words& words) {
  const std::string_view change = before.substr(begin);
  const std::string_view key = word_at(change, 0);
  if (change.find('{') != change.npos) {
    const std::size_t open = open_brace(change);
    if (open == change.npos) return {};
    // The name in front of the braces is a plugin, first_of, or the key of a table.
    const std::size_t end = change.substr(0, open).find_last_not_of(' ') + 1;
    const std::size_t name_start = change.substr(0, end).find_last_of(" {,") + 1;
    const std::string_view name = change.substr(name_start, end - name_start);
    const std::vector<PartWords> parts = parts_of(key, words);
    if (name == "first_of") {
      const std::size_t start = before.find_last_of(" {,") + 1;
      Collector names(start, before.substr(start));
      for (const PartWords& part : parts) names.offer(part.name + " {", /*is_whole=*/false);
      return names.take();
    }
    for (const PartWords& part : parts) {
      if (part.name == (name == key ? "" : name)) return suggest_in_table(before, begin + open, part.options);
    }
    return {};
  }
  const std::size_t start = std::max(before.rfind(' ') + 1, begin);
  const std::string_view given = before.substr(start);
  const std::size_t index = count_words(before.substr(begin, start - begin));
  Collector found(start, given);
  if (index == 0) {
    for (const PartWords& part : words.parts())
      found.offer(part.name.empty() ? part.key + " {" : part.key, !part.name.empty());
    return found.take();
  }
  if (index > 1) return {};
  if (given.find('/') != given.npos) return suggest_files(start, given);  // file of a plugin
  if (key == "proposer") found.offer_all({"none", "first_of"});
  for (const PartWords& part : parts_of(key, words)) found.offer(part.name);
  return found.take();
}

// Suggests sets of parts: a change, with or without quotes, a script, or "now".
Suggestions suggest_sets(std::string_view before, const Words& words) {
  const std::size_t first = std::min(before.find_first_not_of(' ', before.find(' ')), before.size());
  std::size_t open = before.npos;  // position of an open quote
  for (std::size_t i = first; i < before.size(); ++i) {
    if (before[i] != '"' && before[i] != '\'') continue;
    if (open == before.npos) {
      open = i;
    } else if (before[open] == before[i]) {
      open = before.npos;
    }
  }
  if (open != before.npos) {
    const std::size_t semicolon = before.find_last_of(';');
    const bool is_later =
        semicolon != before.npos && semicolon > open && before.find_first_not_of(' ', semicolon + 1) != before.npos;
    const std::size_t begin = (is_later ? semicolon : open) + 1;
    return suggest_change(before, std::min(before.find_first_not_of(' ', begin), before.size()), words);
  }
  const std::size_t start = before.rfind(' ') + 1;
  const std::string_view given = before.substr(start);
  if (start != first) return suggest_files(start, given);
  Collector found(start, given);
  found.offer("now");
  Suggestions all = found.take();
  for (Suggestions more : {suggest_change(before, first, words), suggest_files(start, given)}) {
    all.items.insert(all.items.end(), more.items.begin(), more.items.end());
  }
  return all;
}

Suggestions suggest_field(std::string_view before, std::size_t start, std::size_t index, const Words& words) {
  Collector found(start, before.substr(start));
  if (index == 0) {
    for (const auto& [name, values] : words.fields) found.offer(name);
    return found.take();
  }
  if (index > 1) return {};
  for (const auto& [name, values] : words.fields) {
    if (before.substr(0, start).find(" " + name + " ") == before.npos) continue;
    found.offer_all(values);
    found.offer("default");
  }
  return found.take();
}

Suggestions suggest_argument(Argument argument, std::string_view before, const Words& words) {
  const std::size_t start = before.rfind(' ') + 1;
  const std::size_t index = count_words(before.substr(0, start)) - 1;  // without the command
  if (argument == Argument::kFile) {  // names may have spaces, so the whole rest is one name
    const std::size_t first = std::min(before.find_first_not_of(' ', before.find(' ')), before.size());
    return suggest_files(first, before.substr(first));
  }
  if (argument == Argument::kProposer) return suggest_proposer(before, start, index, words);
  if (argument == Argument::kField) return suggest_field(before, start, index, words);
  if (argument == Argument::kSwap) {
    return suggest_change(before, std::min(before.find_first_not_of(' ', before.find(' ')), before.size()), words);
  }
  if (argument == Argument::kDiff) return suggest_sets(before, words);
  if (argument == Argument::kShow && index == 1 && before.find(" drafts ") != before.npos) {
    Collector switches(start, before.substr(start));
    switches.offer_all({"on", "off"});
    return switches.take();
  }
  if (index > 0) return {};
  Collector found(start, before.substr(start));
  if (argument == Argument::kShow) found.offer("drafts");
  if (argument == Argument::kSeed) found.offer("none");
  if (argument == Argument::kChat) found.offer("clear");
  if (argument == Argument::kPlugin) found.offer_all(words.plugins());
  if (argument == Argument::kCommand) {
    const bool with_slash = before.substr(start).starts_with('/');
    for (const auto& [name, unused] : words.commands) found.offer(with_slash ? name : name.substr(1));
  }
  return found.take();
}

}  // namespace

std::string Suggestions::common_prefix() const {
  if (items.empty()) return "";
  std::string prefix = items.front().text;
  for (const Suggestion& item : items) {
    const auto differ = std::mismatch(prefix.begin(), prefix.end(), item.text.begin(), item.text.end()).first;
    prefix.erase(differ, prefix.end());
  }
  // Drops an incomplete character.
  while (!prefix.empty() && prefix.size() < items.front().text.size() &&
         (static_cast<unsigned char>(items.front().text[prefix.size()]) & 0xC0) == 0x80) {
    prefix.pop_back();
  }
  return prefix;
}

Suggestions suggest(std::string_view before, const Words& words) {
  if (!before.starts_with('/') || before.starts_with("//") || before.find('\n') != before.npos) return {};
  const std::size_t space = before.find(' ');
  const std::string_view name = before.substr(0, space);
  if (space == before.npos) {
    Collector commands(0, name);
    for (const auto& [command, argument] : words.commands) commands.offer(command);
    return commands.take();
  }
  for (const auto& [command, argument] : words.commands) {
    if (command == name) return suggest_argument(argument, before, words);
  }
  return {};
}

std::string expand_home(std::string_view name) {
  const std::optional<std::string> home = environment::home();
  if (!home || !(name == "~" || name.starts_with("~/"))) return std::string(name);
  return *home + std::string(name.substr(1));
}

}  // namespace mortise
