// The meaning of patterns is tested against Oniguruma through golden_test.cpp; here is what must be refused or
// survived.
#include "tokenizer/regex.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise::tokenizer {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& pattern) {
  try {
    Regex(pattern, "file: key");
  } catch (const Error& error) {
    return error.what();
  }
  return "compiled";
}

std::vector<std::string> matches_of(const std::string& pattern, const std::string& text) {
  std::vector<Match> matches;
  Regex(pattern, "test").find_all(text, matches);
  std::vector<std::string> texts;
  for (const Match& match : matches) texts.push_back(text.substr(match.begin, match.end - match.begin));
  return texts;
}

TEST(Regex, RefusesWhatPcre2WouldReadDifferently) {
  for (const char* pattern : {"[a&&b]",
                              "[[:alpha:]]",
                              "[a[b]]",
                              "a(?i)b",
                              "(?x)a b",
                              "(?R)",
                              "(?1)",
                              "\\1",
                              "\\01",
                              "\\k<a>",
                              "(?<a>b)",
                              "(?P<a>b)",
                              "(*LIMIT_MATCH=1)a",
                              "\\K",
                              "\\C",
                              "\\N",
                              "\\Q.\\E",
                              "\\p{^^L}",
                              "\\pL",
                              "\\p{",
                              "\\x",
                              "\\u12",
                              "\\x{110000}",
                              "[a",
                              "a)",
                              "(?#",
                              "\\",
                              "(?C1)a",
                              "\\g{1}",
                              "(?|a)",
                              "(?~a)"}) {
    EXPECT_THAT(error_of(pattern), HasSubstr("file: key: ")) << pattern;
  }
}

TEST(Regex, NamesTheConstructAndItsOffset) {
  EXPECT_THAT(error_of("abc[x&&y]"), HasSubstr("a set intersection (&&) at offset 5 of the regular expression"));
}

TEST(Regex, KnowsLettersOfUnicode16) {
  EXPECT_EQ(matches_of("\\p{L}+", "a\U00031350\U000105C0!"), std::vector<std::string>{"a\U00031350\U000105C0"});
  EXPECT_EQ(matches_of("[^\\p{L}]+", "!\U00031350?"), (std::vector<std::string>{"!", "?"}));
}

TEST(Regex, LeavesOutAnEmptyMatchBehindAMatch) {
  EXPECT_EQ(matches_of("a*", "baac"), (std::vector<std::string>{"", "aa", ""}));
}

TEST(Regex, FailsOnAPatternThatBacktracksWithoutEnd) {
  std::vector<Match> matches;
  const Regex regex("(?:a|a)*(?:a|a)*(?:a|a)*[b-y]", "file: key");
  EXPECT_THROW(regex.find_all(std::string(5000, 'a') + "z", matches), Error);
}

TEST(Regex, GrowsItsStackForALongMatch) {
  // Each repetition of the group keeps a place to come back to: more than the 32 KiB that JIT code has at first.
  std::string text;
  for (int i = 0; i < 20000; ++i) text += i % 2 ? "ab" : "cd";
  EXPECT_EQ(matches_of("(?:ab|cd)+", text), std::vector<std::string>{text});
}

}  // namespace
}  // namespace mortise::tokenizer
