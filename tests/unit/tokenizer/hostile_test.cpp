// Tokenizer files and texts that were written to do harm: each ends in an Error or in good time.
// Covers: runtime/tokenizer/limits
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"
#include "golden_files.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Tokenizer load_spans(const json& patch) {
  json document = test::read_json(test::golden_dir() / "spans" / "tokenizer.json");
  document.merge_patch(patch);
  const test::TempFolder folder;
  folder.write("tokenizer.json", document.dump());
  return Tokenizer::load(folder.path());
}

std::string hostile_load_error(const json& patch) {
  try {
    load_spans(patch);
  } catch (const Error& error) {
    return error.what();
  }
  return "loaded";
}

std::string encode_error(const json& patch, const std::string& text) {
  const auto tokenizer = load_spans(patch);
  try {
    tokenizer.encode(text, /*add_special_tokens=*/true);
  } catch (const Error& error) {
    return error.what();
  }
  return "encoded";
}

json repeated(const json& part, std::size_t count) {
  json parts = json::array();
  for (std::size_t i = 0; i < count; ++i) parts.push_back(part);
  return parts;
}

json replace(const json& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

json split(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

TEST(HostileTokenizer, MayNotMakeATextLongerAndLonger) {
  const json doubling = repeated(replace({{"String", "a"}}, "aa"), 40);
  EXPECT_THAT(encode_error({{"normalizer", {{"type", "Sequence"}, {"normalizers", doubling}}}}, "aaa"),
              HasSubstr("tokenizer.json makes a text of 3 bytes more than 64 times as long; check the "
                        "replacements of its normalizer and pre_tokenizer"));
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  EXPECT_THAT(encode_error({{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", repeated(bytes, 40)}}}}, "é"),
              HasSubstr("more than 64 times as long"));
  json prefixes = json::array();
  for (int i = 0; i < 40; ++i) {
    prefixes.push_back({{"type", "Metaspace"}, {"replacement", std::string(1, static_cast<char>('A' + i % 20))}});
    prefixes.push_back(split(""));
  }
  EXPECT_THAT(encode_error({{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", prefixes}}}}, "a"),
              HasSubstr("more than 64 times as long"));
}

TEST(HostileTokenizer, MayNotMakeADecodedTextLongerAndLonger) {
  const auto decoders = [](const json& list) {
    return hostile_load_error({{"decoder", {{"type", "Sequence"}, {"decoders", list}}}});
  };
  EXPECT_EQ(decoders(repeated(replace({{"String", "a"}}, "aa"), 12)), "loaded");
  EXPECT_THAT(decoders(repeated(replace({{"String", "a"}}, "aa"), 13)),
              HasSubstr("decoder.decoders[12]: expected replacements that make a text at most 4096 times as long"));
  EXPECT_THAT(decoders(repeated(replace({{"Regex", "x*"}}, std::string(5000, 'y')), 1)),
              HasSubstr("expected replacements that make a text at most 4096 times as long together"));
  EXPECT_THAT(decoders(repeated({{"type", "Fuse"}}, 65)),
              HasSubstr("decoder.decoders[64]: expected at most 64 decoders in all"));
}

TEST(HostileTokenizer, MayNotRepeatTheTextInATemplate) {
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json processor = {
      {"type", "TemplateProcessing"}, {"single", repeated(text, 257)}, {"special_tokens", json::object()}};
  EXPECT_THAT(hostile_load_error({{"post_processor", processor}}),
              HasSubstr("post_processor.single: expected at most 256 pieces, found an array"));
}

TEST(HostileTokenizer, MayNotSearchForLongTexts) {
  const json pattern = {{"String", std::string(4097, 'a')}};
  EXPECT_THAT(hostile_load_error({{"normalizer", replace(pattern, "")}}),
              HasSubstr("normalizer.pattern.String: expected a text of at most 4096 bytes, found \"aaa"));
}

TEST(HostileTokenizer, MayNotMatchForEver) {
  EXPECT_THAT(
      encode_error({{"pre_tokenizer", split("(?:a|a)*[bc]")}}, std::string(1000, 'a')),
      HasSubstr("pre_tokenizer.pattern.Regex: the regular expression fails on a text of 1000 bytes (match limit"));
  EXPECT_THAT(hostile_load_error({{"pre_tokenizer", split("(((((a{1000}){1000}){1000}){1000}){1000})")}}),
              HasSubstr("not a valid regular expression"));
}

// Tokens of white space that swallow their neighbours look at the same stretch over and over if nothing remembers it.
TEST(HostileText, OfWhiteSpaceTokensTakesLinearTime) {
  json tokens = json::array();
  for (const char* content : {"\n", " "}) {
    tokens.push_back({{"id", 0}, {"content", content}, {"lstrip", true}, {"rstrip", content[0] == '\n'}});
  }
  const auto tokenizer = load_spans({{"added_tokens", tokens}});
  constexpr std::size_t kLength = 400000;
  EXPECT_EQ(tokenizer.encode(std::string(kLength, '\n'), false).size(), 1u);  // one token has all of them
  EXPECT_GT(tokenizer.encode(std::string(kLength, ' '), false).size(), 0u);
  std::string mixed;
  for (std::size_t i = 0; i < kLength / 2; ++i) mixed += "\n ";
  EXPECT_EQ(tokenizer.encode(mixed, false).size(), 1u);
}

// With a cost that grows with the square of the length each of these would take minutes.
TEST(HostileText, WithoutABreakIsEncodedByThePublishedPipelines) {
  constexpr std::size_t kLength = 50000;
  for (const char* folder : {"spans", "pieces"}) {
    for (const test::Variant& variant : test::read_variants(folder)) {
      const bool is_quadratic =
          variant.name == "as superbpe" || variant.name == "as tiny-aya";  // in digits, on purpose
      if (!variant.name.starts_with("as ") || is_quadratic) continue;
      const test::TempFolder files;
      files.write("tokenizer.json", variant.document.dump());
      const auto tokenizer = Tokenizer::load(files.path());
      for (const char* unit : {"a", " ", "\n", "7", "!", "中", "\u0301", "aB", "<s>", " \n"}) {
        std::string text;
        while (text.size() < kLength) text += unit;
        EXPECT_FALSE(tokenizer.encode(text, false).empty()) << variant.name;
      }
    }
  }
}

}  // namespace
}  // namespace mortise
