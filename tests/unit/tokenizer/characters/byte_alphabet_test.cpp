#include "tokenizer/characters/byte_alphabet.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

std::string written(std::string_view bytes) {
  std::string characters;
  append_byte_characters(bytes, characters);
  return characters;
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
    EXPECT_EQ(bytes_of_characters(written(one)), one) << byte;
  }
  EXPECT_EQ(characters.size(), 256u);
}

TEST(ByteAlphabet, AnythingElseIsNoText) {
  std::size_t num_letters = 0;
  for (char32_t c = 0; c < 0x400; ++c) {
    std::string character;
    append_utf8(c, character);
    num_letters += bytes_of_characters(character).has_value();
  }
  EXPECT_EQ(num_letters, 256u);
  EXPECT_EQ(bytes_of_characters("a b"), std::nullopt);  // a space is written Ġ
  EXPECT_EQ(bytes_of_characters("Ġ中"), std::nullopt);
  EXPECT_EQ(bytes_of_characters("😀"), std::nullopt);
  EXPECT_EQ(bytes_of_characters(""), "");
}

}  // namespace
}  // namespace mortise::tokenizer
