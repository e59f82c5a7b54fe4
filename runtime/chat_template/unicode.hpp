// runtime/chat_template/unicode.hpp: characters of UTF-8 texts, and Python's methods of strings that depend on them.
// REQUIRES everywhere: valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chat_template/marked_text.hpp"

namespace mortise::jinja {

// The character at `at`, which moves behind it.
std::int32_t next_character(std::string_view text, std::size_t& at);
std::size_t count_characters(std::string_view text);
// The byte where character `index` begins; the text's size when it has not so many.
std::size_t byte_of_character(std::string_view text, std::size_t index);

bool is_space(std::int32_t character);  // Python's str.isspace
bool is_cased(std::int32_t character);
bool is_alphabetic(std::int32_t character);
bool is_digit(std::int32_t character);

enum class Case { kUpper, kLower, kTitle, kCapitalized };
// Python's upper(), lower(), title(), capitalize(), for all characters but a few dozen ligatures whose upper case is
// more than one character ("ß" is done).
MarkedText with_case(const MarkedText& text, Case wanted);

}  // namespace mortise::jinja
