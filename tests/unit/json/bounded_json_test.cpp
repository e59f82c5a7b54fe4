#include "json/bounded_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::string& text) {
  try {
    parse_json(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "parsed";
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(BoundedJson, TakesWhatIsJson) {
  EXPECT_EQ(parse_json(R"( {"a": [1, 2.5, "]]]\"[[["], "b": null} )"),
            (nlohmann::json{{"a", {1, 2.5, "]]]\"[[["}}, {"b", nullptr}}));
  EXPECT_EQ(parse_json(nested(kMaxJsonDepth)).size(), 1u);
  EXPECT_EQ(parse_json("[" + nested(kMaxJsonDepth - 1) + "," + nested(kMaxJsonDepth - 1) + "]").size(), 2u);
}

TEST(BoundedJson, BracketsInStringsAreNotDepth) {
  const std::string brackets(1'000'000, '[');
  EXPECT_EQ(refusal(fmt::format("\"{}\"", brackets)), "parsed");
  EXPECT_EQ(refusal(fmt::format("[\"\\\"{}\"]", brackets)), "parsed");
}

TEST(BoundedJson, RefusesDepthWithThePlace) {
  EXPECT_EQ(refusal(nested(kMaxJsonDepth + 1)), "JSON is nested deeper than 100 levels, from byte 100 on; flatten it");
  EXPECT_THAT(refusal(nested(1'000'000)), HasSubstr("JSON is nested deeper than 100 levels"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("JSON is nested deeper than 100 levels"));
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(refusal(objects), HasSubstr("JSON is nested deeper than 100 levels"));
}

TEST(BoundedJson, SaysWhatIsNotJson) {
  EXPECT_THAT(refusal("{\"a\":"), StartsWith("not JSON: parse error at line 1, column 6: syntax error while parsing"));
  for (const char* text : {"", " ", "]", "[1,]", "{1:2}", "nul", "1 2", "\"\xff\"", "\"\\ud800\"", "NaN", "1e999",
                           "'a'", "[1] [", "\"a\\\"", "-"}) {
    EXPECT_THAT(refusal(text), StartsWith("not JSON: ")) << text;
  }
}

TEST(BoundedJson, AnErrorCannotPlayWithTheTerminalNorFillIt) {
  const std::string text = refusal("\"\x1b[2J" + std::string(1'000'000, 'x'));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 200u);
  EXPECT_EQ(quote("a\x1b\xc3\xa4"
                  "b"),
            "'a?\?\?b'");
  EXPECT_EQ(quote(std::string(121, 'x')), fmt::format("'{}...'", std::string(120, 'x')));
}

TEST(BoundedJson, WhatIsNoJsonOrTooDeepIsFoundToBeNone) {
  EXPECT_EQ(find_json("[1]"), nlohmann::json({1}));
  EXPECT_EQ(find_json("null"), nlohmann::json());
  EXPECT_EQ(find_json("[1"), std::nullopt);
  EXPECT_EQ(find_json("hello"), std::nullopt);
  EXPECT_EQ(find_json(nested(kMaxJsonDepth + 1)), std::nullopt);
  EXPECT_EQ(find_json(std::string(1000000, '[')), std::nullopt);
}

}  // namespace
}  // namespace mortise
