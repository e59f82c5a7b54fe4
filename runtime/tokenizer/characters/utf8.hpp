// runtime/tokenizer/characters/utf8.hpp: conversions between bytes and code points. Functions with "REQUIRES: valid
// UTF-8" do not check it: Tokenizer::encode replaces invalid bytes first, so the later stages need not check again.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mortise::tokenizer {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

bool is_valid_utf8(std::string_view text);

// Appends `bytes` to `out` with each maximal invalid part replaced by one U+FFFD (Unicode 3.9, "U+FFFD substitution of
// maximal subparts"; the same as Python's errors="replace" and Rust's from_utf8_lossy). Returns the number of bytes
// taken: all if `is_end`, otherwise all but a tail of at most three bytes that later bytes may complete.
std::size_t append_lossy(std::string_view bytes, bool is_end, std::string& out);

void append_utf8(char32_t code_point, std::string& out);

// Number of bytes of the character that starts with `lead`. REQUIRES: `lead` starts a character of valid UTF-8.
inline std::size_t character_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the code point at `position`, and moves `position` past it.
// REQUIRES: valid UTF-8 and position < text.size().
char32_t next_code_point(std::string_view text, std::size_t& position);

// The position of the last character that starts before `position`. REQUIRES: valid UTF-8 and position > 0.
std::size_t previous_character(std::string_view text, std::size_t position);

// The first start of a character at or after `position`, or the end.
// REQUIRES: valid UTF-8.
std::size_t character_boundary(std::string_view text, std::size_t position);

// Unicode's property White_Space (25 code points; it has not changed since Unicode 6.3).
bool is_white_space(char32_t code_point);

// The end of the white space that starts at `begin`; `begin` if there is none. REQUIRES: valid UTF-8.
std::size_t white_space_end(std::string_view text, std::size_t begin);

// The beginning of the white space that ends at `end`, looking back no further than `floor`. REQUIRES: valid UTF-8.
std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t floor);

}  // namespace mortise::tokenizer
