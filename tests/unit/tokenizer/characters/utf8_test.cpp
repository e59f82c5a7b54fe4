#include "tokenizer/characters/utf8.hpp"

#include <string>

#include <gtest/gtest.h>

#include "golden_files.hpp"

namespace mortise::tokenizer {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(Utf8, ReplacesInvalidBytesAsPythonDoes) {
  for (const auto& golden : test::read_json(test::golden_dir() / "invalid.json")) {
    const std::string bytes = from_hex(golden[0]);
    std::string text;
    EXPECT_EQ(append_lossy(bytes, /*is_end=*/true, text), bytes.size());
    EXPECT_EQ(text, golden[1].get<std::string>()) << golden[0];
    EXPECT_EQ(is_valid_utf8(bytes), bytes == text) << golden[0];
    EXPECT_TRUE(is_valid_utf8(text));
  }
}

TEST(Utf8, ReplacesTheSameWhereverTheBytesAreCut) {
  for (const auto& golden : test::read_json(test::golden_dir() / "invalid.json")) {
    const std::string bytes = from_hex(golden[0]);
    std::string text, pending;
    for (const char byte : bytes) {
      pending += byte;
      pending.erase(0, append_lossy(pending, /*is_end=*/false, text));
      EXPECT_TRUE(is_valid_utf8(text)) << golden[0];
      EXPECT_LE(pending.size(), 3u);
    }
    append_lossy(pending, /*is_end=*/true, text);
    EXPECT_EQ(text, golden[1].get<std::string>()) << golden[0];
  }
}

TEST(Utf8, ReadsBackEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    ASSERT_TRUE(is_valid_utf8(text)) << static_cast<unsigned>(c);
    ASSERT_EQ(character_length(text[0]), text.size()) << static_cast<unsigned>(c);
    std::size_t at = 0;
    ASSERT_EQ(next_code_point(text, at), c);
    ASSERT_EQ(at, text.size());
    ASSERT_EQ(previous_character("x" + text, text.size() + 1), 1u);
  }
}

TEST(Utf8, FindsTheInvalidByteBehindLongAscii) {
  for (std::size_t length = 0; length < 40; ++length) {
    EXPECT_TRUE(is_valid_utf8(std::string(length, 'a')));
    EXPECT_FALSE(is_valid_utf8(std::string(length, 'a') + "\xC3"));
    EXPECT_FALSE(is_valid_utf8(std::string(length, 'a') + "\x80" + std::string(9, 'b')));
  }
}

}  // namespace
}  // namespace mortise::tokenizer
