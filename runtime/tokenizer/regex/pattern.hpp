// runtime/tokenizer/regex/pattern.hpp: the pattern of a split or a replacement.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/regex/regex.hpp"

namespace mortise::tokenizer {

// A regular expression, a fixed text or a set of characters. Immutable and thread-safe.
class Pattern {
 public:
  using CharacterPredicate = bool (*)(char32_t);

  // {"String": "..."} or {"Regex": "..."}.
  explicit Pattern(const ConfigNode& node);
  explicit Pattern(Regex regex) : pattern_(std::move(regex)) {}
  // Each character of the set is a match.
  explicit Pattern(CharacterPredicate is_match) : pattern_(is_match) {}
  // REQUIRES: `text` is not empty.
  static Pattern of_text(std::string text) { return Pattern(std::move(text)); }

  // As Regex::find_all.
  void find_all(std::string_view text, const TimeLimit& time, std::vector<Match>& matches) const;

  // Returns `text` with each match replaced by `content`.
  std::string replace_all(std::string_view text, std::string_view content, const TimeLimit& time) const;

  // The fixed text, or null if the pattern is not a fixed text.
  const std::string* literal() const { return std::get_if<std::string>(&pattern_); }

  // The factor by which replace_all() lengthens a text at most.
  std::size_t growth(std::size_t content_size) const;

 private:
  explicit Pattern(std::string text) : pattern_(std::move(text)) {}

  std::variant<std::string, Regex, CharacterPredicate> pattern_;
};

}  // namespace mortise::tokenizer
