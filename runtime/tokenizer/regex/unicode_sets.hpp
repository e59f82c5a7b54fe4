// runtime/tokenizer/regex/unicode_sets.hpp: sets of characters by Unicode property, spelled for PCRE2.
// A set is the text between [ and ]. A property's set adds what Unicode 15 and 16 assigned, for PCRE2s that are older.
#pragma once

#include <string>
#include <string_view>

namespace mortise::tokenizer {

struct CharacterSet {
  std::string body;
  bool negated = false;  // the set is everything but `body`

  // As it stands in a pattern: "[...]" or "[^...]".
  std::string bracketed() const;
};

// The set of \p{name}: a general category, a script, or a name of POSIX brackets. Names that are none of these come
// back as scripts, and PCRE2 refuses them.
CharacterSet property_set(std::string_view name);

// The set of [:name:]; false for a name that is none.
bool posix_set(std::string_view name, CharacterSet& set);

// The set of \w inside of a set.
CharacterSet word_set_in_brackets();

// The sets of Oniguruma's \s, \w, \d and \h outside of sets. REQUIRES: `letter` is one of s, w, d, h.
CharacterSet shorthand_set(char letter);

// The set of \w in Rust's regex crate, which `tokenizers` uses for its own patterns.
CharacterSet rust_word_set();

}  // namespace mortise::tokenizer
