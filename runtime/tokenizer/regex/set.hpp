// runtime/tokenizer/regex/set.hpp: a set in brackets, from Oniguruma's syntax to PCRE2's.
// Oniguruma's sets nest ([a[b-d]]), intersect ([\w&&[^_]]) and unite with negated classes ([\S\r]); PCRE2 10.42 has
// none of it, but has lookahead: what is not a plain set becomes an expression that matches one character.
#pragma once

#include <string>

#include "tokenizer/regex/reader.hpp"

namespace mortise::tokenizer {

// Takes the set that starts at the reader's [. Throws Error for a set that is malformed or not supported.
std::string take_set(RegexReader& reader);

}  // namespace mortise::tokenizer
