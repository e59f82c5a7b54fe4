// runtime/tokenizer/characters/byte_alphabet.hpp: GPT-2's reversible alphabet: each of the 256 bytes as one printable
// character. Printable Latin-1 bytes stand for themselves, the 68 others for U+0100 onwards (a space is U+0120, "Ġ"),
// so that a byte-level vocabulary can be written as text.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mortise::tokenizer {

// Appends each byte of `bytes` as its character.
void append_byte_characters(std::string_view bytes, std::string& out);

// The bytes that `characters` stand for; nullopt when one of them is not of the alphabet. REQUIRES: valid UTF-8.
std::optional<std::string> bytes_of_characters(std::string_view characters);

}  // namespace mortise::tokenizer
