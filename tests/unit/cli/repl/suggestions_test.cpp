#include "cli/repl/suggestions.hpp"

#include "cli/repl/state.hpp"
#include "test_support.hpp"
#include "variables.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

Words words() {
  Words words = command_words();
  words.plugins = [] { return std::vector<std::string>{"cpu", "paged"}; };
  words.parts = [] {
    return std::vector<PartWords>{{"proposer",
                                   "draft",
                                   {{"max_tokens", {}, false},
                                    {"mode", {"fast", "exact"}, false},
                                    {"eager", {"true", "false"}},
                                    {"path", {}, true}}},
                                  {"proposer", "dream", {}},
                                  {"attention", "paged", {{"block_size", {}, false}}},
                                  {"kv_cache", "", {{"dtype", {"auto", "int8"}}, {"memory", {}}}}};
  };
  return words;
}

// The texts that the word under the cursor may become.
std::vector<std::string> offered(const std::string& before) {
  std::vector<std::string> texts;
  for (const Suggestion& item : suggest(before, words()).items) texts.push_back(item.text);
  return texts;
}

TEST(Suggest, Commands) {
  EXPECT_THAT(offered("/se"), ElementsAre("/seed", "/set"));
  EXPECT_THAT(offered("/"), AllOf(Contains("/help"), Contains("/proposer"), Contains("/save!")));
  EXPECT_THAT(offered("/zzz"), IsEmpty());
}

TEST(Suggest, PromptsGetNone) {
  for (const char* before : {"", "hello", " /se", "//se", "a /set t", "/set stop a\n/se"}) {
    EXPECT_THAT(offered(before), IsEmpty()) << before;
  }
}

TEST(Suggest, FieldsAndTheirValues) {
  EXPECT_THAT(offered("/set te"), ElementsAre("temperature"));
  EXPECT_THAT(offered("/set  min_"), ElementsAre("min_p", "min_tokens"));
  EXPECT_THAT(offered("/set ignore_eos "), ElementsAre("default", "false", "true"));
  EXPECT_THAT(offered("/set ignore_eos t"), ElementsAre("true"));
  EXPECT_THAT(offered("/set temperature "), ElementsAre("default"));
  EXPECT_THAT(offered("/set stop a b"), IsEmpty());
  EXPECT_THAT(offered("/set nothing "), IsEmpty());
}

TEST(Suggest, WordsOfSmallCommands) {
  EXPECT_THAT(offered("/seed "), ElementsAre("none"));
  EXPECT_THAT(offered("/chat c"), ElementsAre("clear"));
  EXPECT_THAT(offered("/help sc"), ElementsAre("score"));
  EXPECT_THAT(offered("/help /sc"), ElementsAre("/score"));
  EXPECT_THAT(offered("/plugins p"), ElementsAre("paged"));
  EXPECT_THAT(offered("/plugins paged "), IsEmpty());
  EXPECT_THAT(offered("/stats "), IsEmpty());
}

TEST(Suggest, ProposersTheirOptionsAndValues) {
  EXPECT_THAT(offered("/proposer "), ElementsAre("draft", "dream", "first_of", "none"));
  EXPECT_THAT(offered("/proposer dr"), ElementsAre("draft", "dream"));
  EXPECT_THAT(offered("/proposer draft m"), ElementsAre("max_tokens=", "mode="));
  EXPECT_THAT(offered("/proposer draft max_tokens=3 mode="), ElementsAre("exact", "fast"));
  EXPECT_THAT(offered("/proposer draft mode=f"), ElementsAre("fast"));
  EXPECT_THAT(offered("/proposer dream m"), IsEmpty());
  EXPECT_THAT(offered("/proposer unknown m"), IsEmpty());
  const Suggestions option = suggest("/proposer draft mo", words());
  EXPECT_EQ(option.start, 16u);
  EXPECT_FALSE(option.items.front().is_whole);  // true: a space would stand between "mode=" and its value
  EXPECT_EQ(suggest("/proposer draft mode=f", words()).start, 21u);
}

TEST(Suggest, KeysPartsAndOptionsOfASwap) {
  EXPECT_THAT(offered("/swap "), ElementsAre("attention", "kv_cache {", "proposer"));
  EXPECT_THAT(offered("/swap a"), ElementsAre("attention"));
  EXPECT_THAT(offered("/swap attention "), ElementsAre("paged"));
  EXPECT_THAT(offered("/swap proposer "), ElementsAre("draft", "dream", "first_of", "none"));
  EXPECT_THAT(offered("/swap nothing "), IsEmpty());
  EXPECT_THAT(offered("/swap attention paged "), IsEmpty());
  EXPECT_THAT(offered("/swap attention paged {"), ElementsAre("block_size = "));
  EXPECT_THAT(offered("/swap proposer draft {m"), ElementsAre("max_tokens = ", "mode = "));
  EXPECT_THAT(offered("/swap proposer draft { max_tokens = 3, mo"), ElementsAre("mode = "));
  EXPECT_THAT(offered("/swap proposer draft {mode = "), ElementsAre("\"exact\"", "\"fast\""));
  EXPECT_THAT(offered("/swap proposer draft {mode = \"f"), ElementsAre("\"fast\""));
  EXPECT_THAT(offered("/swap proposer draft {eager="), ElementsAre("false", "true"));
  EXPECT_THAT(offered("/swap proposer dream {"), IsEmpty());
  EXPECT_THAT(offered("/swap proposer unknown {"), IsEmpty());
  EXPECT_THAT(offered("/swap kv_cache {d"), ElementsAre("dtype = "));
  EXPECT_THAT(offered("/swap kv_cache {memory = \"1GiB\"} "), IsEmpty());
  EXPECT_EQ(suggest("/swap proposer draft {mode = \"f", words()).start, 29u);
}

TEST(Suggest, ProposersOfAList) {
  EXPECT_THAT(offered("/swap proposer first_of {"), ElementsAre("draft {", "dream {"));
  EXPECT_THAT(offered("/swap proposer first_of { draft {max"), ElementsAre("max_tokens = "));
  EXPECT_THAT(offered("/swap proposer first_of { draft {max_tokens = 3}, dre"), ElementsAre("dream {"));
}

TEST(Suggest, SetsOfADiff) {
  EXPECT_THAT(offered("/diff n"), ElementsAre("now"));
  EXPECT_THAT(offered("/diff att"), ElementsAre("attention"));
  EXPECT_THAT(offered("/diff \"att"), ElementsAre("attention"));
  EXPECT_THAT(offered("/diff now \"attention pa"), ElementsAre("paged"));
  EXPECT_THAT(offered("/diff now 'attention paged {"), ElementsAre("block_size = "));
  EXPECT_THAT(offered("/diff \"attention paged; prop"), ElementsAre("proposer"));
  EXPECT_THAT(offered("/diff \"attention paged\" \"proposer "), ElementsAre("draft", "dream", "first_of", "none"));
  const TempFolder dir;
  test::write_text(dir.path() / "mine.lua", "");
  EXPECT_THAT(offered("/diff now " + dir.path().string() + "/mi"), ElementsAre(dir.path().string() + "/mine.lua"));
}

TEST(Suggest, WhatIsShown) {
  EXPECT_THAT(offered("/show d"), ElementsAre("drafts"));
  EXPECT_THAT(offered("/show drafts o"), ElementsAre("off", "on"));
  EXPECT_THAT(offered("/show drafts on o"), IsEmpty());
}

TEST(Suggest, Files) {
  const TempFolder dir;
  const std::string base = dir.path().string() + "/";
  for (const char* name : {"story.json", "story two.json", ".hidden", "bad\x01name"}) test::write_text(base + name, "");
  fs::create_directory(base + "stories");
  EXPECT_THAT(offered("/load " + base + "sto"),
              ElementsAre(base + "stories/", base + "story two.json", base + "story.json"));
  EXPECT_THAT(offered("/save " + base + "story t"), ElementsAre(base + "story two.json"));
  EXPECT_THAT(offered("/save! " + base + "."), ElementsAre(base + ".hidden"));
  EXPECT_THAT(offered("/load " + base), Not(Contains(base + ".hidden")));
  EXPECT_THAT(offered("/load " + base), Not(Contains(base + "bad\x01name")));
  EXPECT_THAT(offered("/load /nowhere/x"), IsEmpty());
  EXPECT_THAT(offered("/proposer draft path=" + base + "stories"), ElementsAre(base + "stories/"));
  const Suggestions folder = suggest("/load " + base + "stories", words());
  EXPECT_FALSE(folder.items.front().is_whole);  // true: a space would end the name at the folder
}

TEST(Suggest, FilesOfTheHomeFolder) {
  const TempFolder dir;
  test::write_text(dir.path() / "mine.json", "");
  const test::ScopedVariable home("HOME", dir.path().string());
  EXPECT_THAT(offered("/load ~/mi"), ElementsAre("~/mine.json"));
  EXPECT_EQ(expand_home("~/mine.json"), (dir.path() / "mine.json").string());
  EXPECT_EQ(expand_home("a~/b"), "a~/b");
}

TEST(Suggestions, CommonPrefixEndsWithAWholeCharacter) {
  EXPECT_EQ((Suggestions{0, {{"seed"}, {"set"}}}).common_prefix(), "se");
  EXPECT_EQ((Suggestions{0, {{"aé"}, {"aè"}}}).common_prefix(), "a");  // é and è share their first byte
  EXPECT_EQ((Suggestions{0, {{"abc"}, {"ab"}}}).common_prefix(), "ab");
  EXPECT_EQ(Suggestions{}.common_prefix(), "");
}

TEST(CommandWords, OfInstalledProposersComeFromTheirSchemas) {
  const test::ScopedVariable folder("MORTISE_PLUGIN_PATH", LOOKBACK_DIR);
  const Words words = command_words();
  const auto texts = [&](const std::string& before) {
    std::vector<std::string> found;
    for (const Suggestion& item : suggest(before, words).items) found.push_back(item.text);
    return found;
  };
  EXPECT_THAT(texts("/proposer look"), ElementsAre("lookback"));
  EXPECT_THAT(texts("/proposer lookback "), ElementsAre("eager=", "max_tokens=", "notes=", "occurrence="));
  EXPECT_THAT(texts("/proposer lookback occurrence="), ElementsAre("first", "latest"));
  EXPECT_THAT(texts("/proposer lookback eager=t"), ElementsAre("true"));
  EXPECT_THAT(texts("/plugins look"), ElementsAre("lookback"));
  EXPECT_THAT(texts("/swap proposer lookback {occurrence = "), ElementsAre("\"first\"", "\"latest\""));
  EXPECT_THAT(texts("/swap kv_cache {dt"), ElementsAre("dtype = "));
}

}  // namespace
}  // namespace mortise
