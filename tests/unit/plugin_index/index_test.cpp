#include "plugin_index/index.hpp"

#include "index_fixture.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

IndexLine version_of(const std::string& version, const std::string& name = "suffix") {
  IndexEntry entry = some_entry();
  entry.version = version;
  entry.parts.front().name = name;
  return line_of(entry);
}

std::vector<std::string> versions_of(const std::vector<IndexLine>& lines) {
  std::vector<std::string> versions;
  for (const IndexLine& line : lines) versions.push_back(line.version);
  return versions;
}

TEST(PluginIndex, IsWhatWasWritten) {
  const std::vector<IndexLine> lines = {version_of("1.0"), version_of("2.0", "other")};
  const auto read = parse_index(to_text(lines));
  EXPECT_EQ(to_text(read), to_text(lines));
  EXPECT_EQ(read[1].entry, "other-2.0.json");
}

TEST(PluginIndex, IsSearchedInAllThatDescribesAPart) {
  const std::vector<IndexLine> lines = {version_of("1.9"), version_of("1.10"), version_of("3", "earlier")};
  EXPECT_EQ(versions_of(search(lines, {})), (std::vector<std::string>{"3", "1.10", "1.9"}));
  EXPECT_EQ(versions_of(search(lines, {"EARL"})), (std::vector<std::string>{"3"}));
  EXPECT_EQ(search(lines, {"proposer", "automaton", "example.suffix", "span256"}).size(), 3u);
  EXPECT_TRUE(search(lines, {"proposer", "device"}).empty());
  EXPECT_TRUE(search(lines, {"propose"}).empty()) << "a kind is a whole word";
}

TEST(PluginIndex, FindsTheNewestVersionThatCanBeUsed) {
  std::vector<IndexLine> lines = {version_of("1.9"), version_of("1.10"), version_of("1.11"), version_of("1.2")};
  lines[2].abi_minor = MORTISE_ABI_MINOR + 1;
  EXPECT_EQ(find_line(lines, "suffix", "").version, "1.10");
  EXPECT_EQ(find_line(lines, "toy", "").version, "1.10") << "a part that is not the first has no file of its name";
  EXPECT_EQ(find_line(lines, "suffix", "1.9").version, "1.9");
  EXPECT_THAT(error_of([&] { find_line(lines, "suffix", "7"); }),
              HasSubstr("has no version 7 of 'suffix', but it has 1.9, 1.10, 1.11, 1.2"));
  EXPECT_THAT(error_of([&] { find_line(lines, "sufix", ""); }), HasSubstr("no plugin 'sufix'; did you mean 'suffix'?"));
  EXPECT_THAT(error_of([&] { find_line({lines[2]}, "suffix", ""); }),
              HasSubstr("no version of 'suffix' in the index can be used here: 1.11: it is built for plugin ABI"));
}

TEST(PluginIndex, SaysWhatIsWrong) {
  EXPECT_THAT(error_of([] { parse_index("[]"); }), HasSubstr("this is not an index of plugins"));
  EXPECT_THAT(error_of([] { parse_index(R"({"format": "mortise-index/1"})"); }), HasSubstr("'plugins' is not a list"));
  EXPECT_THAT(error_of([] { parse_index(R"({"format": "mortise-index/1", "plugins": [3]})"); }),
              HasSubstr("plugin 1 of the index: it is not an object"));
  nlohmann::json json = nlohmann::json::parse(to_text({version_of("1")}));
  json["plugins"][0]["entry"] = "../x.json";
  EXPECT_THAT(error_of([&] { parse_index(json.dump()); }), HasSubstr("plugin 1 of the index: 'entry' is '../x.json'"));
}

}  // namespace
}  // namespace mortise
