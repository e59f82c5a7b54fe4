// runtime/tokenizer/characters/character_sets.hpp: sets of characters as `tokenizers` has them (written by
// make_character_sets.py).
#pragma once

namespace mortise::tokenizer {

// What Punctuation splits at: category P of an older Unicode, and all of ASCII's punctuation and symbols.
bool is_punctuation(char32_t c);

// What StripAccents removes: category M of an older Unicode.
bool is_combining_mark(char32_t c);

}  // namespace mortise::tokenizer
