// runtime/tokenizer/regex/regex.hpp: a compiled regular expression of a tokenizer file (PCRE2 with JIT).
// Immutable and shared by threads. Texts are hostile, patterns are trusted little more: PCRE2's match limit stops a
// match that backtracks without end, a TimeLimit many matches that look far ahead for little, and the caller gets an
// Error instead of a hung thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/limits.hpp"

namespace mortise::tokenizer {

struct Match {
  std::size_t begin;
  std::size_t end;
};

class Regex {
 public:
  // Compiles a pattern in Oniguruma's syntax. `where` (file and key) starts the text of every Error, also later ones.
  Regex(std::string_view pattern, std::string where);

  // Compiles a pattern that is in PCRE2's syntax already.
  static Regex from_pcre2_syntax(const std::string& pattern, std::string where);

  // Replaces `matches` by the matches in `text`, leftmost first, none overlapping; an empty match right behind another
  // match is left out. Lookbehind sees nothing in front of `text`. REQUIRES: valid UTF-8. Throws Error when PCRE2 gives
  // up on a match or `time` is over.
  void find_all(std::string_view text, const TimeLimit& time, std::vector<Match>& matches) const;

 private:
  struct Code;
  Regex(std::unique_ptr<const Code> code, std::string where);
  std::shared_ptr<const Code> code_;
  std::string where_;
};

}  // namespace mortise::tokenizer
