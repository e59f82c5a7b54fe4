// runtime/chat_template/unicode.hpp: characters of UTF-8 texts, and the string methods of Python that depend on them.
// REQUIRES for all functions: valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chat_template/marked_text.hpp"

namespace mortise::jinja {

// Returns the character at `at`, and moves `at` past it.
std::int32_t next_character(std::string_view text, std::size_t& at);
std::size_t count_characters(std::string_view text);
// The byte where character `index` begins; the text's size if there are fewer characters.
std::size_t byte_of_character(std::string_view text, std::size_t index);

bool is_space(std::int32_t character);  // Python's str.isspace
bool is_cased(std::int32_t character);
bool is_alphabetic(std::int32_t character);
bool is_digit(std::int32_t character);

enum class Case { kUpper, kLower, kTitle, kCapitalized };
// Python's upper(), lower(), title(), capitalize(). Wrong only for a few dozen ligatures whose upper case has several
// characters ("ß" is right).
MarkedText with_case(const MarkedText& text, Case wanted);

}  // namespace mortise::jinja
