#include "plugin_index/index_entry.hpp"

#include "index_fixture.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(IndexEntry, IsWhatWasWritten) {
  const IndexEntry entry = some_entry();
  const IndexEntry read = parse_index_entry(to_json(entry).dump());
  EXPECT_EQ(to_json(read), to_json(entry));
  EXPECT_EQ(read.parts[1].kind, PartKind::kAttention);
  EXPECT_EQ(read.parts[1].numerics, entry.parts[1].numerics);
  EXPECT_EQ(read.check.options, entry.check.options);
  EXPECT_EQ(entry_stem(read), "suffix-1.0.0");
}

TEST(IndexEntry, MayHaveFieldsOfLaterVersions) {
  auto json = to_json(some_entry());
  json["homepage"] = "https://example.org";
  EXPECT_EQ(to_json(parse_index_entry(json.dump())), to_json(some_entry()));
}

TEST(IndexEntry, SaysWhichFieldIsWrong) {
  struct Damage {
    const char* pointer;
    nlohmann::json value;  // discarded: the field is removed
    const char* text;
  };
  const std::vector<Damage> damages = {
      {"/format", "mortise-plugin/9", "this is not an entry of a plugin index"},
      {"/version", nlohmann::json::value_t::discarded, "'version' is missing"},
      {"/version", "../../etc", "'version' is '../../etc': letters, digits and '.-_+' are allowed"},
      {"/vendor", 7, "'vendor' is not a text"},
      {"/vendor", "", "'vendor' is not a line of 1 to 200 bytes"},
      {"/vendor", "a\x1b[2J", "'vendor' is not a line of 1 to 200 bytes"},
      {"/vendor", "a\u009b2J", "'vendor' is not a line of 1 to 200 bytes"},
      {"/vendor", "a\u202ebc", "'vendor' is not a line of 1 to 200 bytes"},
      {"/size", 1e18, "'size' is not a whole number"},
      {"/size", std::uint64_t{1} << 40, "'size' is 1099511627776, and at most"},
      {"/abi", "0", "'abi' is '0', not a version"},
      {"/abi", "0.6x", "'abi' is '0.6x', not a version"},
      {"/file", "a/b.so", "'file' is 'a/b.so': letters, digits"},
      {"/file", ".so", "'file' is '.so': letters, digits"},
      {"/file", "x.sh", "'file' is 'x.sh', which is not a .so file"},
      {"/size", -1, "'size' is not a whole number"},
      {"/sha256", "00", "'sha256' is not 64 lower-case hexadecimal digits"},
      {"/sha256", std::string(64, 'A'), "'sha256' is not 64 lower-case hexadecimal digits"},
      {"/parts", nlohmann::json::array(), "'parts' is not a list of 1 to 64"},
      {"/parts/0", 1, "'parts' has an element that is not an object"},
      {"/parts/0/name", "a/b", "'a/b' is not the name of a part"},
      {"/parts/0/kind", "engine", "'engine' is not a kind of part"},
      {"/parts/0/numerics", "x", "'numerics' is not a list of up to 16 ids"},
      {"/check", 1, "'check' is not an object"},
      {"/check/options", 1, "'options' of 'check' is not an object"},
  };
  for (const Damage& damage : damages) {
    nlohmann::json json = to_json(some_entry());
    const nlohmann::json::json_pointer pointer(damage.pointer);
    if (damage.value.is_discarded()) {
      json[pointer.parent_pointer()].erase(pointer.back());
    } else {
      json[pointer] = damage.value;
    }
    EXPECT_THAT(error_of([&] { parse_index_entry(json.dump()); }), HasSubstr(damage.text)) << damage.pointer;
  }
  EXPECT_THAT(error_of([] { parse_index_entry("{"); }), HasSubstr("not JSON"));
}

TEST(IndexEntry, SaysWhyAPluginCannotBeUsedHere) {
  EXPECT_EQ(unusable_here(MORTISE_ABI_MAJOR, MORTISE_ABI_MINOR, this_platform()), "");
  EXPECT_EQ(unusable_here(MORTISE_ABI_MAJOR, MORTISE_ABI_OLDEST_MINOR, this_platform()), "");
  EXPECT_THAT(unusable_here(MORTISE_ABI_MAJOR, MORTISE_ABI_MINOR + 1, this_platform()),
              HasSubstr("it is built for plugin ABI"));
  EXPECT_THAT(unusable_here(MORTISE_ABI_MAJOR, MORTISE_ABI_MINOR, "plan9-vax"), HasSubstr("it is for plan9-vax"));
}

}  // namespace
}  // namespace mortise
