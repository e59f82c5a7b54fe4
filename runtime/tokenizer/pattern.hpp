// runtime/tokenizer/pattern.hpp: what Split and Replace look for: {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/config_node.hpp"
#include "tokenizer/regex.hpp"

namespace mortise::tokenizer {

class Pattern {
 public:
  explicit Pattern(const ConfigNode& node);
  explicit Pattern(Regex regex) : pattern_(std::move(regex)) {}

  // As Regex::find_all.
  void find_all(std::string_view text, std::vector<Match>& matches) const;

  // `text` with each match replaced by `content`.
  std::string replace_all(std::string_view text, std::string_view content) const;

  // The text looked for, or null if this is a regular expression.
  const std::string* literal() const { return std::get_if<std::string>(&pattern_); }

 private:
  std::variant<std::string, Regex> pattern_;
};

}  // namespace mortise::tokenizer
