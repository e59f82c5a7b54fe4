#include "tokenizer/pattern.hpp"

namespace mortise::tokenizer {
namespace {

std::variant<std::string, Regex> read(const ConfigNode& node) {
  if (const auto regex = node.find("Regex")) return Regex(regex->as_string(), regex->where());
  const auto text = node.find("String");
  if (!text) node.fail_expected("{\"String\": ...} or {\"Regex\": ...}");
  std::string literal = text->as_string();
  if (literal.empty()) text->fail_expected("a text that is not empty");
  return literal;
}

}  // namespace

Pattern::Pattern(const ConfigNode& node) : pattern_(read(node)) {}

void Pattern::find_all(std::string_view text, std::vector<Match>& matches) const {
  const std::string* wanted = literal();
  if (!wanted) return std::get<Regex>(pattern_).find_all(text, matches);
  matches.clear();
  for (std::size_t at = text.find(*wanted); at != std::string_view::npos;
       at = text.find(*wanted, at + wanted->size())) {
    matches.push_back({at, at + wanted->size()});
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view content) const {
  std::vector<Match> matches;
  find_all(text, matches);
  std::string replaced;
  replaced.reserve(text.size());
  std::size_t end = 0;
  for (const Match& match : matches) {
    replaced.append(text.substr(end, match.begin - end)).append(content);
    end = match.end;
  }
  return replaced.append(text.substr(end));
}

}  // namespace mortise::tokenizer
