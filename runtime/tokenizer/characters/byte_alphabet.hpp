// runtime/tokenizer/characters/byte_alphabet.hpp: GPT-2's reversible alphabet, which writes each of the 256 bytes as a
// printable character, so that a byte-level vocabulary is text. Printable Latin-1 bytes are written as themselves, the
// 68 others as U+0100 and the following characters (a space is U+0120, "Ġ").
#pragma once

#include <string>
#include <string_view>

namespace mortise::tokenizer {

// Appends each byte of `bytes` as its character.
void append_byte_characters(std::string_view bytes, std::string& out);

// Appends the bytes of such characters. Returns false, and appends nothing, if a character is not in the alphabet.
// REQUIRES: valid UTF-8.
bool append_bytes_of(std::string_view characters, std::string& out);

}  // namespace mortise::tokenizer
