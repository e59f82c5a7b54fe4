// runtime/tokenizer/regex/unicode_sets.hpp: sets of characters by Unicode property, in PCRE2's syntax. A set is the
// text between [ and ]. A property's set includes the characters of Unicode 15 and 16, for older versions of PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace mortise::tokenizer {

// A set of characters, as PCRE2 writes it. A value.
struct CharacterSet {
  std::string body;
  bool negated = false;  // the set is the complement of `body`

  // The set in a pattern: "[...]" or "[^...]".
  std::string bracketed() const;
};

// The set of \p{name}: a general category, a script, or a POSIX name. Any other name is returned as a script, which
// PCRE2 then refuses.
CharacterSet property_set(std::string_view name);

// Sets `set` to the set of [:name:]. Returns false for an unknown name.
bool posix_set(std::string_view name, CharacterSet& set);

// The set of \w inside of a set.
CharacterSet word_set_in_brackets();

// The sets of Oniguruma's \s, \w, \d and \h outside of sets. REQUIRES: `letter` is one of s, w, d, h.
CharacterSet shorthand_set(char letter);

// The set of \w in Rust's regex crate, which `tokenizers` uses for its own patterns.
CharacterSet rust_word_set();

}  // namespace mortise::tokenizer
