// runtime/tokenizer/normalizer/unicode_normalization.hpp: the four Unicode normal forms and lower case (data:
// utf8proc). Linear but for the sorting of one run of combining marks (n log n): utf8proc's own ordering is quadratic,
// and a text may be a megabyte of marks. Characters that `tokenizers` leaves alone (inert_characters.inc: assigned
// after Unicode 9) are left alone here too, and nothing composes or moves across them.
#pragma once

#include <string>
#include <string_view>

namespace mortise::tokenizer {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// REQUIRES: valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

// Each character's full lower-case mapping, without regard to its neighbours. REQUIRES: valid UTF-8.
std::string to_lower_case(std::string_view text);

}  // namespace mortise::tokenizer
