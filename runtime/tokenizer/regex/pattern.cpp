#include "tokenizer/regex/pattern.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

// Searching for a text takes up to its length in steps for each character. Texts in published files have a few bytes.
constexpr std::size_t kMaxTextBytes = 4096;

std::variant<std::string, Regex, Pattern::CharacterPredicate> read(const ConfigNode& node) {
  if (const auto regex = node.find("Regex")) return Regex(regex->as_string(), regex->where());
  const auto text = node.find("String");
  if (!text) node.fail_expected("{\"String\": ...} or {\"Regex\": ...}");
  std::string literal = text->as_string();
  if (literal.empty()) return Regex("", text->where());  // `tokenizers` finds an empty text between any two characters
  if (literal.size() > kMaxTextBytes) text->fail_expected(fmt::format("a text of at most {} bytes", kMaxTextBytes));
  return literal;
}

void find_text(std::string_view text, std::string_view wanted, std::vector<Match>& matches) {
  for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size())) {
    matches.push_back({at, at + wanted.size()});
  }
}

void find_characters(std::string_view text, Pattern::CharacterPredicate is_match, std::vector<Match>& matches) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    if (is_match(next_code_point(text, i))) matches.push_back({begin, i});
  }
}

}  // namespace

Pattern::Pattern(const ConfigNode& node) : pattern_(read(node)) {}

void Pattern::find_all(std::string_view text, const TimeLimit& time, std::vector<Match>& matches) const {
  if (const auto* regex = std::get_if<Regex>(&pattern_)) return regex->find_all(text, time, matches);
  matches.clear();
  if (const std::string* wanted = literal()) {
    find_text(text, *wanted, matches);
  } else {
    find_characters(text, std::get<CharacterPredicate>(pattern_), matches);
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view content, const TimeLimit& time) const {
  std::vector<Match> matches;
  find_all(text, time, matches);
  std::string replaced;
  replaced.reserve(text.size());
  std::size_t end = 0;
  for (const Match& match : matches) {
    replaced.append(text.substr(end, match.begin - end)).append(content);
    end = match.end;
  }
  return replaced.append(text.substr(end));
}

std::size_t Pattern::growth(std::size_t content_size) const {
  // An expression may match the empty text everywhere; then the whole text is kept, too.
  const std::string* wanted = literal();
  return wanted ? std::max<std::size_t>(1, (content_size + wanted->size() - 1) / wanted->size()) : content_size + 1;
}

}  // namespace mortise::tokenizer
