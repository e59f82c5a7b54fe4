// runtime/tokenizer/regex/set.hpp: translates a set in brackets from Oniguruma's syntax to PCRE2's. Oniguruma's sets
// can be nested ([a[b-d]]), intersected ([\w&&[^_]]) and combined with negated classes ([\S\r]). PCRE2 10.42 cannot,
// but it has lookahead: a set that is not plain becomes an expression that matches one character.
#pragma once

#include <string>

#include "tokenizer/regex/reader.hpp"

namespace mortise::tokenizer {

// Takes the set that starts at the reader's [. Throws Error for a set that is malformed or not supported.
std::string take_set(RegexReader& reader);

}  // namespace mortise::tokenizer
