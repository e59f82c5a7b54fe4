#include "cli/repl/part_text.hpp"

#include "pipeline/part_change.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;

TEST(PartText, OptionsAreJsonOrText) {
  const PartText part = parse_part_text(R"(draft  max_tokens=4 mode=fast exact=true path="/a b/c" list=[1,2] empty=)");
  EXPECT_EQ(part.name, "draft");
  EXPECT_EQ(
      part.options,
      Json(
          {{"max_tokens", 4}, {"mode", "fast"}, {"exact", true}, {"path", "/a b/c"}, {"list", {1, 2}}, {"empty", ""}}));
  EXPECT_EQ(parse_part_text("draft").options, Json::object());
  EXPECT_EQ(parse_part_text(R"(a t="x\"y" u=a=b)").options, Json({{"t", "x\"y"}, {"u", "a=b"}}));
}

TEST(PartText, MistakesAreNamed) {
  EXPECT_EQ(error_of([] { parse_part_text("draft 4"); }), "'4' is not an option; options are written name=value");
  EXPECT_EQ(error_of([] { parse_part_text("draft =4"); }), "'=4' is not an option; options are written name=value");
  EXPECT_EQ(error_of([] { parse_part_text("draft a=1 a=2"); }), "option 'a' is given twice");
  EXPECT_EQ(error_of([] { parse_part_text("draft a=\"x"); }), "a \" is not closed in: draft a=\"x");
  EXPECT_EQ(error_of([] { parse_part_text(" "); }), "a plugin's name is missing");
}

const PluginCatalog& catalog() {
  static const PluginCatalog catalog({LOOKBACK_DIR, fs::path(TEST_PLUGIN_DIR) / "good"});
  return catalog;
}

PartDescription find(const std::string& text) {
  const PartText given = parse_part_text(text);
  return find_part(catalog(), PartKind::kProposer, given.name, given.options, fs::current_path());
}

TEST(FindPart, ByNameOrByFile) {
  const std::string shown = show_part(find("lookback max_tokens=2"));
  EXPECT_EQ(shown, R"(lookback eager=true max_tokens=2 notes="" occurrence="latest")");
  EXPECT_EQ(show_part(find(std::string(LOOKBACK_DIR) + "/lookback.so max_tokens=2")), shown);
}

TEST(FindPart, MistakesNamePluginOrOption) {
  EXPECT_THAT(error_of([] { find("lookbak"); }), AllOf(HasSubstr("lookbak"), HasSubstr("did you mean 'lookback'?")));
  EXPECT_EQ(error_of([] { find("toy_scheduler"); }), "proposer must be a proposer, but 'toy_scheduler' is a scheduler");
  EXPECT_THAT(error_of([] { find("lookback max_tokens=99"); }),
              HasSubstr("option 'max_tokens' of proposer 'lookback' is 99"));
  EXPECT_THAT(error_of([] { find("lookback max_token=9"); }), HasSubstr("did you mean 'max_tokens'?"));
  EXPECT_THAT(error_of([] { find("./nothing.so"); }), HasSubstr("nothing.so"));
}

TEST(FindPart, TakesRelativePathsFromTheWorkingFolder) {
  const auto part = find("lookback notes=notes.txt");
  EXPECT_EQ(part.choices.front().options.at("notes"), (fs::current_path() / "notes.txt").string());
}

}  // namespace
}  // namespace mortise
