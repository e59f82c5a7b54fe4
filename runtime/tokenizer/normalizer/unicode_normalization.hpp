// runtime/tokenizer/normalizer/unicode_normalization.hpp: the four Unicode normal forms, and lower case (data from
// utf8proc). Takes linear time, except n log n for sorting a run of combining marks; utf8proc's own ordering is
// quadratic, and a text may be a megabyte of marks. Characters that `tokenizers` does not know (inert_characters.inc:
// assigned after Unicode 9) are unchanged here, too, and nothing composes or moves across them.
#pragma once

#include <string>
#include <string_view>

namespace mortise::tokenizer {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// REQUIRES: valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

// The full lower-case mapping of each character, independent of its neighbours.
// REQUIRES: valid UTF-8.
std::string to_lower_case(std::string_view text);

}  // namespace mortise::tokenizer
