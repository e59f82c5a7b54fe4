#include "chat_template/escapes.hpp"

#include <gmock/gmock.h>

#include "error.hpp"

namespace mortise::jinja {
namespace {

std::string unescape_error(std::string_view text) {
  try {
    return "accepted as '" + unescape(text) + "'";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Unescape, LettersAndCodesAreThoseOfPython) {
  EXPECT_EQ(unescape(""), "");
  EXPECT_EQ(unescape(R"(\n\t\r\a\b\f\v\\\'\")"), "\n\t\r\a\b\f\v\\'\"");
  EXPECT_EQ(unescape(R"(\x41\u4e2d\U0001F600\xe9)"), "A中😀é");
  EXPECT_EQ(unescape(R"(\x414)"), "A4");  // two digits and no more
  EXPECT_EQ(unescape(R"(\101\1018\7\400)"), "AA8\aĀ");
  EXPECT_EQ(unescape(R"(\0)"), std::string(1, '\0'));
  EXPECT_EQ(unescape("a\\\nb"), "ab");  // a line that goes on
}

TEST(Unescape, WhatIsNoEscapeStandsAsItIs) {
  EXPECT_EQ(unescape(R"(\d\q\8\中)"), R"(\d\q\8\中)");
  EXPECT_EQ(unescape("\\"), "\\");
}

TEST(Unescape, BrokenEscapesAndWhatIsNoCharacterAreRefused) {
  for (const char* text : {R"(\x)", R"(\x4)", R"(\xg1)", R"(\u12)", R"(\u 123)", R"(\U1F600)", R"(\x+1)", R"(\x-1)"}) {
    EXPECT_EQ(unescape_error(text), "a string has an invalid escape; \\x takes 2 digits, \\u 4 and \\U 8") << text;
  }
  EXPECT_EQ(unescape_error(R"(\ud800)"), "a string has an escape for U+D800, which is not a character");
  EXPECT_EQ(unescape_error(R"(\U00110000)"), "a string has an escape for U+110000, which is not a character");
  EXPECT_THAT(unescape_error(R"(\Uffffffff)"), testing::HasSubstr("which is not a character"));
  EXPECT_THAT(unescape_error(R"(\N{BULLET})"), testing::HasSubstr("\\N, which is not supported"));
}

}  // namespace
}  // namespace mortise::jinja
