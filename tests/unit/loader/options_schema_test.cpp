#include "loader/options_schema.hpp"

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

const OptionsSchema& schema() {
  static const OptionsSchema schema(R"({
    "type": "object",
    "required": ["path"],
    "properties": {
      "path": {"title": "folder of the model", "type": "string", "format": "path"},
      "block_size": {"title": "tokens per block", "type": "integer", "minimum": 1, "maximum": 256, "default": 16},
      "isa": {"title": "instruction set", "enum": ["auto", "avx2"], "default": "auto"},
      "limit": {"title": "of tokens", "type": ["integer", "null"], "minimum": 1, "default": null},
      "a": {"title": "a", "type": "boolean", "default": false},
      "b": {"title": "b", "type": "boolean", "default": false}
    },
    "not": {"properties": {"a": {"const": true}, "b": {"const": true}}}})");
  return schema;
}

std::string refusal(const json& given) {
  return error_of([&] { schema().complete(given, "attention 'paged'"); });
}

TEST(OptionsSchema, FillsInDefaults) {
  EXPECT_EQ(schema().complete({{"path", "x"}, {"isa", "avx2"}}, "x"),
            json({{"path", "x"}, {"block_size", 16}, {"isa", "avx2"}, {"limit", nullptr}, {"a", false}, {"b", false}}));
}

TEST(OptionsSchema, ListsTheValuesOfAnOptionThatHasFew) {
  for (const Option& option : schema().options()) {
    EXPECT_EQ(json(option.values), option.name == "isa"                       ? json({"auto", "avx2"})
                                   : option.name == "a" || option.name == "b" ? json({true, false})
                                                                              : json::array())
        << option.name;
  }
}

TEST(OptionsSchema, AlternativesAreDescribed) {
  const OptionsSchema schema(R"({"type": "object", "properties": {"x": {"title": "x", "default": "auto", "oneOf": [
      {"type": "integer", "minimum": 1, "maximum": 9}, {"type": "string", "enum": ["auto", "off"]}]}}})");
  EXPECT_EQ(schema.options()[0].type, "integer or string");
  EXPECT_EQ(schema.options()[0].expected, "an integer from 1 to 9, or one of \"auto\", \"off\"");
}

TEST(OptionsSchema, UnknownOptionGetsTheNearestNameAndTheList) {
  EXPECT_EQ(refusal({{"path", "x"}, {"blok_size", 16}}),
            "unknown option 'blok_size' of attention 'paged'; did you mean 'block_size'? it has the options: path, "
            "block_size, isa, limit, a, b");
}

TEST(OptionsSchema, WrongValueIsShownWithWhatWasExpected) {
  EXPECT_EQ(refusal({{"path", "x"}, {"block_size", "16"}}),
            "option 'block_size' of attention 'paged' is \"16\" (a string); expected an integer from 1 to 256 (tokens "
            "per block)");
  EXPECT_THAT(refusal({{"path", "x"}, {"block_size", 0}}), HasSubstr("is 0 (a whole number); expected an integer"));
  EXPECT_THAT(refusal({{"path", "x"}, {"isa", "sse"}}), HasSubstr("expected one of \"auto\", \"avx2\""));
  EXPECT_THAT(refusal({{"path", "x"}, {"limit", 0}}), HasSubstr("expected an integer or null of at least 1"));
  EXPECT_THAT(refusal({{"path", 7}}), HasSubstr("expected a string"));
}

TEST(OptionsSchema, MissingRequiredOptionIsNamed) {
  EXPECT_EQ(refusal(json::object()), "attention 'paged' needs the option 'path' (folder of the model): a string");
}

// std::regex recurses for each character.
TEST(OptionsSchema, LongTextsAreNotMatchedWithPatterns) {
  const OptionsSchema with_pattern(R"({"type": "object", "properties": {
    "name": {"title": "name", "type": "string", "pattern": "^(a|b)*$", "default": "a"},
    "free": {"title": "free", "type": "string", "default": ""}}})");
  const std::string text(1'000'000, 'a');
  const auto refusal_of = [&](const json& given) {
    return error_of([&] { with_pattern.complete(given, "model 'x'"); });
  };
  EXPECT_EQ(refusal_of({{"name", "abab"}}), "");
  EXPECT_THAT(refusal_of({{"name", "abc"}}), HasSubstr("expected a string, matching \"^(a|b)*$\""));
  EXPECT_THAT(refusal_of({{"name", text}}), HasSubstr("it has a pattern, so at most 2048 bytes are allowed"));
  EXPECT_EQ(refusal_of({{"free", text}}), "");
}

TEST(OptionsSchema, SaysWhatIsWrongWithTheSchema) {
  const auto wrong = [](const std::string& text) { return error_of([&] { OptionsSchema schema(text); }); };
  const auto with = [&](const std::string& members) { return wrong("{\"type\": \"object\", " + members + "}"); };
  EXPECT_THAT(wrong("{"), HasSubstr("cannot be read: not JSON: parse error"));
  EXPECT_THAT(wrong("{\"a\":" + std::string(1'000'000, '[')), HasSubstr("cannot be read: JSON is nested deeper"));
  EXPECT_EQ(wrong("[]"), "is not a JSON object");
  EXPECT_EQ(wrong("{}"), "does not have \"type\": \"object\"");
  EXPECT_EQ(with(R"("properties": {"x": {"$ref": "#"}})"), "uses \"$ref\", which mortise does not support");
  EXPECT_EQ(with(R"("properties": 3)"), "has \"properties\" that are not an object");
  EXPECT_EQ(with(R"("required": "x")"), "has a \"required\" that is not an array");
  EXPECT_EQ(with(R"("required": ["x"])"), "requires \"x\", which is not among its properties");
  EXPECT_EQ(with(R"("properties": {"x": 3})"), "property 'x' is not an object");
}

TEST(OptionsSchema, RulesBetweenOptionsHold) {
  EXPECT_EQ(refusal({{"path", "x"}, {"a", true}}), "");
  EXPECT_THAT(refusal({{"path", "x"}, {"a", true}, {"b", true}}), HasSubstr("do not fit together"));
}

TEST(OptionsSchema, OptionsKeepTheOrderOfTheSchema) {
  std::vector<std::string> names;
  for (const auto& option : schema().options()) names.push_back(option.name);
  EXPECT_THAT(names, testing::ElementsAre("path", "block_size", "isa", "limit", "a", "b"));
  EXPECT_TRUE(schema().options()[0].is_path);
}

}  // namespace
}  // namespace mortise
