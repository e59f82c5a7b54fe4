#include "cli/repl/suggestions.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tokenizer/utf8.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

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

// Files whose names go on from `given`, at `start` of the line. Hidden ones only when asked for.
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

// `start` is where the word under the cursor begins, `index` how many stand between the command and it.
Suggestions suggest_proposer(std::string_view before, std::size_t start, std::size_t index, const Words& words) {
  const std::vector<PartWords> proposers = words.proposers();
  const std::string_view given = before.substr(start);
  if (index == 0) {
    if (given.find('/') != given.npos) return suggest_files(start, given);  // a plugin's file
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

std::size_t count_words(std::string_view text) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); ++i) n += text[i] != ' ' && (i == 0 || text[i - 1] == ' ') ? 1 : 0;
  return n;
}

Suggestions suggest_argument(Argument argument, std::string_view before, const Words& words) {
  const std::size_t start = before.rfind(' ') + 1;
  const std::size_t index = count_words(before.substr(0, start)) - 1;  // the command is a word too
  if (argument == Argument::kFile) {                                   // names may have spaces: all of the rest is one
    const std::size_t first = std::min(before.find_first_not_of(' ', before.find(' ')), before.size());
    return suggest_files(first, before.substr(first));
  }
  if (argument == Argument::kProposer) return suggest_proposer(before, start, index, words);
  if (argument == Argument::kField) return suggest_field(before, start, index, words);
  if (index > 0) return {};
  Collector found(start, before.substr(start));
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
  // Not half a character.
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
  const char* home = std::getenv("HOME");
  if (home == nullptr || !(name == "~" || name.starts_with("~/"))) return std::string(name);
  return home + std::string(name.substr(1));
}

}  // namespace mortise
