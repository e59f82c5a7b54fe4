#include "cli/repl/part_text.hpp"

#include <vector>

#include "cli/repl/suggestions.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
namespace {

// Splits a line into words at spaces outside of double quotes. A backslash in front of a quote makes it part of the
// text.
std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false, quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quoted && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    words.back() += c;
    if (quoted && c == '\\' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    }
  }
  if (quoted) fail("a \" is not closed in: {}", text);
  return words;
}

}  // namespace

PartText parse_part_text(std::string_view text) {
  const std::vector<std::string> words = split_words(text);
  if (words.empty()) fail("a plugin's name is missing");
  PartText part{expand_home(words.front())};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      fail("'{}' is not an option; options are written name=value", words[i]);
    }
    const std::string name = words[i].substr(0, equals);
    const std::string value = words[i].substr(equals + 1);
    if (part.options.contains(name)) fail("option '{}' is given twice", name);
    part.options[name] = find_json(value).value_or(nlohmann::json(expand_home(value)));
  }
  return part;
}

std::string show_part(const PartDescription& part) {
  std::string text = part.name;
  for (const auto& [name, value] : part.choices.front().options.items()) {
    text += fmt::format(" {}={}", name, value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return text;
}

}  // namespace mortise
