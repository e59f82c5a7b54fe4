// runtime/tokenizer/regex/regex.hpp: a compiled regular expression of a tokenizer file (PCRE2 with JIT). Immutable and
// thread-safe. Texts may be hostile, and patterns are hardly trusted more. PCRE2's match limit stops a match that
// backtracks endlessly; a TimeLimit stops many matches that look far ahead. The caller gets an Error instead of a
// blocked thread.
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

// A compiled expression. Invariant: the code never changes, so copies share it. Immutable and thread-safe.
class Regex {
 public:
  // Compiles a pattern in Oniguruma's syntax. The text of every Error, also later ones, begins with `where` (file and
  // key).
  Regex(std::string_view pattern, std::string where);

  // Compiles a pattern that is in PCRE2's syntax already.
  static Regex from_pcre2_syntax(const std::string& pattern, std::string where);

  // Replaces `matches` by the matches in `text`: leftmost first, not overlapping, without an empty match directly
  // after another match. Lookbehind sees nothing in front of `text`. Throws an Error if PCRE2 gives up on a match, or
  // if `time` is used up.
  // REQUIRES: valid UTF-8.
  void find_all(std::string_view text, const TimeLimit& time, std::vector<Match>& matches) const;

 private:
  struct Code;
  Regex(std::unique_ptr<const Code> code, std::string where);
  std::shared_ptr<const Code> code_;
  std::string where_;
};

}  // namespace mortise::tokenizer
