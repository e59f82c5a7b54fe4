#include "cli/repl/entry.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace mortise {
namespace {

// The entries that lines make; the last is "..." when lines are missing.
std::vector<std::string> entries(const std::vector<std::string>& lines) {
  EntryAssembler assembler;
  std::vector<std::string> texts;
  for (const std::string& line : lines) {
    if (const auto entry = assembler.add(line)) texts.push_back((entry->is_block ? "block:" : "") + entry->text);
  }
  if (assembler.is_open()) texts.push_back("...");
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Entry, ALineIsAnEntryAsItStands) {
  EXPECT_EQ(entries({"hello", " /x  ", ""}), (Texts{"hello", " /x  ", ""}));
}

TEST(Entry, ABackslashAtTheEndGoesOnInTheNextLine) {
  EXPECT_EQ(entries({"one \\", "two\\", "three", "four"}), (Texts{"one \ntwo\nthree", "four"}));
  EXPECT_EQ(entries({"one\\"}), (Texts{"..."}));
}

TEST(Entry, AnEvenNumberOfBackslashesIsText) {
  EXPECT_EQ(entries({"C:\\\\", "a\\\\\\", "b"}), (Texts{"C:\\\\", "a\\\\\nb"}));
}

TEST(Entry, ABlockIsWhatStandsBetweenItsLines) {
  EXPECT_EQ(entries({"\"\"\"", "/not a command", "", "ends in \\", "\"\"\" ", "next"}),
            (Texts{"block:/not a command\n\nends in \\", "next"}));
  EXPECT_EQ(entries({"\"\"\"", "\"\"\""}), (Texts{"block:"}));
  EXPECT_EQ(entries({"\"\"\"", "open"}), (Texts{"..."}));
}

TEST(Entry, QuotesInTheMiddleAreText) {
  EXPECT_EQ(entries({"\"\"\"a", "a \"\"\"", "b\\", "\"\"\""}), (Texts{"\"\"\"a", "a \"\"\"", "b\n\"\"\""}));
}

TEST(Entry, NewlinesOfAPasteDoNotEndIt) {
  EXPECT_EQ(entries({"one\ntwo\nthree"}), (Texts{"one\ntwo\nthree"}));
  EXPECT_EQ(entries({"one\\\ntwo"}), (Texts{"one\\\ntwo"}));  // pasted backslashes are text but at the very end
  EXPECT_EQ(entries({"one\ntwo\\", "three"}), (Texts{"one\ntwo\nthree"}));
}

TEST(Entry, APastedBlockIsOne) {
  EXPECT_EQ(entries({"\"\"\"\n/a\nb\n\"\"\""}), (Texts{"block:/a\nb"}));
  EXPECT_EQ(entries({"\"\"\"\na", "b\n\"\"\"", "c"}), (Texts{"block:a\nb", "c"}));
  EXPECT_EQ(entries({"\"\"\"\na\n\"\"\"\nafter"}), (Texts{"block:a\nafter"}));
}

TEST(Entry, ClearForgetsWhatIsOpen) {
  EntryAssembler assembler;
  assembler.add("\"\"\"");
  assembler.add("half");
  EXPECT_TRUE(assembler.is_open() && assembler.in_block());
  assembler.clear();
  EXPECT_FALSE(assembler.is_open());
  EXPECT_EQ(assembler.add("whole"), (Entry{"whole", false}));
}

TEST(Entry, ThatComesBackFromTheHistoryIsTheSame) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {"/", "\\", "\n", "\"\"\"", "a", " ", "//", "\n\"", "é"};
  for (int i = 0; i < 20000; ++i) {
    Entry entry{"", i % 2 == 0};
    for (unsigned n = random() % 6; n > 0; --n) entry.text += pieces[random() % pieces.size()];
    // What can be an entry at all: a plain one is what lines can make, a block has no closing line in it.
    EntryAssembler typed;
    if (!entry.is_block && typed.add(entry.text) != entry) continue;
    if (entry.is_block && ("\n" + entry.text).find("\n\"\"\"") != std::string::npos) continue;
    if (is_blank(entry.text)) continue;
    EntryAssembler again;
    const auto back = again.add(as_one_line(entry));
    ASSERT_TRUE(back.has_value()) << entry.text;
    ASSERT_EQ(back->text, entry.text);
    // A block that begins like a command stays a prompt.
    if (entry.text.starts_with('/')) {
      ASSERT_EQ(back->is_block, entry.is_block) << entry.text;
    }
  }
}

TEST(Entry, TrimmedLosesWhiteSpaceAtItsEndsAlone) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed("  "), "");
}

}  // namespace
}  // namespace mortise
