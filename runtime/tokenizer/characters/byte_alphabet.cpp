#include "tokenizer/characters/byte_alphabet.hpp"

#include <array>
#include <cstddef>

#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr char32_t kEndOfSubstitutes = kFirstSubstitute + 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char16_t, 256> make_characters() {
  std::array<char16_t, 256> characters{};
  char16_t next = kFirstSubstitute;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char16_t, 256> kCharacters = make_characters();

constexpr std::array<unsigned char, kEndOfSubstitutes> make_bytes() {
  std::array<unsigned char, kEndOfSubstitutes> bytes{};
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<unsigned char>(byte);
  return bytes;
}

constexpr std::array<unsigned char, kEndOfSubstitutes> kBytes = make_bytes();

bool is_of_alphabet(char32_t c) {
  return c < 0x100 ? stands_for_itself(static_cast<unsigned>(c)) : c < kEndOfSubstitutes;
}

}  // namespace

void append_byte_characters(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) append_utf8(kCharacters[static_cast<unsigned char>(byte)], out);
}

bool append_bytes_of(std::string_view characters, std::string& out) {
  const std::size_t begin = out.size();
  for (std::size_t i = 0; i < characters.size();) {
    const char32_t c = next_code_point(characters, i);
    if (!is_of_alphabet(c)) {
      out.resize(begin);
      return false;
    }
    out += static_cast<char>(kBytes[c]);
  }
  return true;
}

}  // namespace mortise::tokenizer
