#include "tokenizer/characters/byte_alphabet.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

std::string written(std::string_view bytes) {
  std::string characters;
  append_byte_characters(bytes, characters);
  return characters;
}

// What append_bytes_of() appends; nullopt if it returns false.
std::optional<std::string> read(std::string_view characters) {
  std::string bytes = "before";
  const bool is_of_alphabet = append_bytes_of(characters, bytes);
  EXPECT_TRUE(bytes.starts_with("before"));
  if (!is_of_alphabet) {
    EXPECT_EQ(bytes, "before");
    return std::nullopt;
  }
  return bytes.substr(6);
}

TEST(ByteAlphabet, IsThatOfGpt2) {
  EXPECT_EQ(written("Hello world\n"), "HelloĠworldĊ");
  EXPECT_EQ(written("é"), "Ã©");
  EXPECT_EQ(written(std::string("\0\x7f\x80\xa0\xad\xff", 6)), "ĀġĢłŃÿ");
  EXPECT_EQ(written(""), "");
}

TEST(ByteAlphabet, EveryByteHasACharacterOfItsOwnAndComesBack) {
  std::set<std::string> characters;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    characters.insert(written(one));
    EXPECT_EQ(read(written(one)), one) << byte;
  }
  EXPECT_EQ(characters.size(), 256u);
}

TEST(ByteAlphabet, AnythingElseIsNoText) {
  std::size_t num_letters = 0;
  for (char32_t c = 0; c < 0x400; ++c) {
    std::string character;
    append_utf8(c, character);
    num_letters += read(character).has_value();
  }
  EXPECT_EQ(num_letters, 256u);
  EXPECT_EQ(read("a b"), std::nullopt);  // a space is written Ġ
  EXPECT_EQ(read("Ġ中"), std::nullopt);
  EXPECT_EQ(read("😀"), std::nullopt);
  EXPECT_EQ(read(""), "");
}

}  // namespace
}  // namespace mortise::tokenizer
