// The meaning of patterns is tested against Oniguruma through golden_test.cpp; here is what must be refused or
// survived.
// Covers: runtime/tokenizer/regex/{reader,set,syntax,unicode_sets}
#include "tokenizer/regex/regex.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise::tokenizer {
namespace {

using testing::HasSubstr;

std::string pattern_error(const std::string& pattern) {
  try {
    Regex(pattern, "file: key");
  } catch (const Error& error) {
    return error.what();
  }
  return "compiled";
}

std::vector<std::string> matches_of(const std::string& pattern, const std::string& text) {
  std::vector<Match> matches;
  Regex(pattern, "test").find_all(text, TimeLimit(text.size()), matches);
  std::vector<std::string> texts;
  for (const Match& match : matches) texts.push_back(text.substr(match.begin, match.end - match.begin));
  return texts;
}

TEST(Regex, RefusesWhatPcre2WouldReadDifferently) {
  for (const char* pattern :
       {"[a&&]", "[&&a]",      "[a[b]",         "\\X",     "a(?i)b",      "(?x)a b",  "(?R)",
        "(?1)",  "\\1",        "\\01",          "\\k<a>",  "(?<a>b)",     "(?P<a>b)", "(*LIMIT_MATCH=1)a",
        "\\K",   "\\C",        "\\N",           "\\Q.\\E", "\\p{^^L}",    "\\pL",     "\\p{",
        "\\x",   "\\xC3\\xA9", "[\\x00-\\xFF]", "\\u12",   "\\x{110000}", "[a",       "a)",
        "(?#",   "\\",         "(?C1)a",        "\\g{1}",  "(?|a)",       "(?~a)"}) {
    EXPECT_THAT(pattern_error(pattern), HasSubstr("file: key: ")) << pattern;
  }
}

TEST(Regex, NamesTheConstructAndItsOffset) {
  EXPECT_THAT(pattern_error("abc\\K"), HasSubstr("\\K at offset 3 of the regular expression is not supported"));
  EXPECT_THAT(pattern_error(std::string(17, '[') + "a" + std::string(17, ']')),
              HasSubstr("a set inside so many others at offset 16 of the regular expression"));
  std::string long_pattern;
  for (int i = 0; i < 2000; ++i) long_pattern += "\\w";
  EXPECT_THAT(pattern_error(long_pattern), HasSubstr("so long a pattern at offset"));
}

TEST(Regex, KnowsLettersOfUnicode16) {
  EXPECT_EQ(matches_of("\\p{L}+", "a\U00031350\U000105C0!"), std::vector<std::string>{"a\U00031350\U000105C0"});
  EXPECT_EQ(matches_of("[^\\p{L}]+", "!\U00031350?"), (std::vector<std::string>{"!", "?"}));
}

TEST(Regex, NamesWhatIsNotSupportedAndWhere) {
  const std::pair<const char*, const char*> refusals[] = {
      {"a\\p{L$}", "the property's name at offset 1 of"},
      {"a\\", "a \\ at the end at offset 1 of"},
      {"\\xE2", "a byte that is no character (write \\x{..}) at offset 0 of"},
      {"a\\x{", "an incomplete hexadecimal escape at offset 1 of"},
      {"\\u12G4", "an incomplete hexadecimal escape at offset 0 of"},
      {"\\u12", "an incomplete hexadecimal escape at offset 0 of"},
      {"b[a-z", "a set without ] at offset 5 of"},
      {"[a&&]", "a set with nothing at one side of &&, before at offset 5 of"},
      {"a(?#b", "a comment without ) at offset 1 of"},
      {"a(?<n>b)", "this kind of group at offset 1 of"},
      {"ab)", "a ) without ( at offset 2 of"},
      {"a(*FAIL)", "(* at offset 1 of"},
  };
  for (const auto& [pattern, text] : refusals) {
    try {
      const Regex regex(pattern, "file: key");
      ADD_FAILURE() << pattern << " was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text)) << pattern;
    }
  }
}

TEST(Regex, LeavesOutAnEmptyMatchBehindAMatch) {
  EXPECT_EQ(matches_of("a*", "baac"), (std::vector<std::string>{"", "aa", ""}));
}

TEST(Regex, FailsOnAPatternThatBacktracksWithoutEnd) {
  std::vector<Match> matches;
  const Regex regex("(?:a|a)*(?:a|a)*(?:a|a)*[b-y]", "file: key");
  EXPECT_THROW(regex.find_all(std::string(5000, 'a') + "z", TimeLimit(5000), matches), Error);
}

TEST(Regex, FailsOnManyMatchesThatLookFarAheadForLittle) {
  // Each match is one character long, after a look at all of the rest: no match limit sees that.
  std::vector<Match> matches;
  const Regex regex("\\w*\\d|.", "file: key");
  try {
    regex.find_all(std::string(300000, 'a'), TimeLimit(0), matches);
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("file: key: the regular expression takes too long for a text of 300000 bytes"));
  }
}

TEST(Regex, FailsWhereEveryByteCostsMuchAndNothingMatches) {
  // Each start takes milliseconds, far below the match limit, and there is no match after which to look at the clock.
  std::vector<Match> matches;
  const Regex regex("(?:a|a){18}[bc]", "file: key");
  try {
    regex.find_all(std::string(20000, 'a'), TimeLimit(0), matches);
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("file: key: the regular expression takes too long for a text of 20000 bytes"));
  }
}

TEST(Regex, FindsWhatBeginsFarBehindAndWhatReachesFar) {
  const std::string gap(1000, '-'), wide = "\U0001F600\U0001F600\U0001F600\U0001F600\U0001F600";
  EXPECT_EQ(matches_of("b+", gap + "bb" + wide + "b" + gap), (std::vector<std::string>{"bb", "b"}));
  EXPECT_EQ(matches_of("\\w{40}", wide + gap + std::string(81, 'x')),
            (std::vector<std::string>{std::string(40, 'x'), std::string(40, 'x')}));
  EXPECT_EQ(matches_of("(?<=-)x$", gap + "x"), std::vector<std::string>{"x"});
}

TEST(Regex, GrowsItsStackForALongMatch) {
  // Each repetition of the group keeps a place to come back to: more than the 32 KiB that JIT code has at first.
  std::string text;
  for (int i = 0; i < 20000; ++i) text += i % 2 ? "ab" : "cd";
  EXPECT_EQ(matches_of("(?:ab|cd)+", text), std::vector<std::string>{text});
}

}  // namespace
}  // namespace mortise::tokenizer
