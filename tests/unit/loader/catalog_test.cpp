#include "loader/catalog.hpp"

#include "test_support.hpp"
#include "variables.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

mortise_query query_for(const char* device) {
  mortise_query query{};
  query.struct_size = sizeof query;
  query.device = device;
  return query;
}

PluginCatalog good_plugins() {
  return PluginCatalog({fs::path(TEST_PLUGIN_DIR) / "good"});
}

TEST(Catalog, FindsAllFilesOfAName) {
  const auto found = good_plugins().find("twin");
  ASSERT_EQ(found.components.size(), 2u);
  EXPECT_EQ(found.components[0]->file.filename(), "twin-left.so");
  EXPECT_EQ(found.components[1]->file.filename(), "twin-right.so");
}

TEST(Catalog, FindsAComponentWhoseFileHasAnotherName) {
  EXPECT_EQ(good_plugins().find("toy_scheduler").components.size(), 1u);
}

TEST(Catalog, OpensOnlyTheFilesOfTheName) {
  const TempFolder dir;
  fs::copy_file(good("lively"), dir.path() / "lively.so");
  write_text(dir.path() / "broken.so", "broken");
  write_text(dir.path() / "lively.so.bak", "not a plugin file");
  write_text(dir.path() / "lively2.so", "another name");
  const auto found = PluginCatalog({dir.path()}).find("lively");
  EXPECT_EQ(found.components.size(), 1u);
  EXPECT_TRUE(found.refused.empty());  // not empty: it opened a file of another name
}

TEST(Catalog, EarlierFoldersComeFirst) {
  const TempFolder dir;
  fs::copy_file(good("twin-right"), dir.path() / "twin-zzz.so");
  const auto found = PluginCatalog({dir.path() / "missing", dir.path(), good("x").parent_path()}).find("twin");
  ASSERT_EQ(found.components.size(), 2u);  // 3: equal bytes counted twice
  EXPECT_EQ(found.components[0]->file, dir.path() / "twin-zzz.so");
}

TEST(Catalog, TakesTheFirstComponentThatSupportsTheQuery) {
  const PluginCatalog catalog = good_plugins();
  const auto pick = [&](const char* device) {
    return catalog.select(PartKind::kAttention, "twin", query_for(device)).file.filename().string();
  };
  EXPECT_EQ(pick("left_device"), "twin-left.so");
  EXPECT_EQ(pick("right_device"), "twin-right.so");
}

TEST(Catalog, ShowsEveryReasonWhenNoneSupportsTheQuery) {
  const std::string text = error_of([] { good_plugins().select(PartKind::kAttention, "twin", query_for("cpu")); });
  EXPECT_THAT(text, AllOf(HasSubstr("attention 'twin' cannot serve this pipeline"),
                          HasSubstr("twin-left.so: this twin needs left_device"),
                          HasSubstr("twin-right.so: this twin needs right_device")));
}

TEST(Catalog, UnknownNameGetsTheNearestAndThePlace) {
  const std::string text = error_of([] { good_plugins().select(PartKind::kScheduler, "livly", query_for(nullptr)); });
  EXPECT_THAT(text, AllOf(HasSubstr("unknown plugin 'livly'; did you mean 'lively'?"),
                          HasSubstr(good("x").parent_path().string())));
}

// "cuda" in a build that had no nvcc.
TEST(Catalog, UnknownNameFarFromAllOthersMayNotHaveBeenBuilt) {
  const std::string text = error_of([] { good_plugins().select(PartKind::kDevice, "cuda", query_for(nullptr)); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("unknown plugin 'cuda'; in " + good("x").parent_path().string() + ": "),
                    EndsWith("; it was not built or installed, or MORTISE_PLUGIN_PATH does not name its folder")));
}

TEST(Catalog, AFolderWithoutPluginsIsNamed) {
  const TempFolder dir;
  const std::string text =
      error_of([&] { PluginCatalog({dir.path()}).select(PartKind::kScheduler, "fcfs", query_for(nullptr)); });
  EXPECT_EQ(text, "unknown plugin 'fcfs': there is no plugin in " + dir.path().string() +
                      "; set MORTISE_PLUGIN_PATH to the folder that has plugins");
}

TEST(Catalog, ANameWhoseFileIsRefusedGetsTheReason) {
  const TempFolder dir;
  write_text(dir.path() / "paged.so", "");
  const std::string text =
      error_of([&] { PluginCatalog({dir.path()}).select(PartKind::kAttention, "paged", query_for(nullptr)); });
  EXPECT_THAT(text, AllOf(HasSubstr("no usable plugin 'paged'"), HasSubstr("paged.so: is empty")));
}

TEST(Catalog, ListsAllFilesAndThoseRefused) {
  const TempFolder dir;
  fs::copy_file(good("lively"), dir.path() / "lively.so");
  write_text(dir.path() / "broken.so", "broken");
  const auto listing = PluginCatalog({dir.path()}).list();
  EXPECT_EQ(listing.files.size(), 1u);
  ASSERT_EQ(listing.refused.size(), 1u);
  EXPECT_EQ(listing.refused[0].path.filename(), "broken.so");
}

TEST(Catalog, SearchesTheVariableThenTheExecutablesFolderThenTheUsers) {
  const test::ScopedVariable path("MORTISE_PLUGIN_PATH", "/a::/b/c");
  const test::ScopedVariable data("XDG_DATA_HOME", "/home/data");
  const PluginCatalog catalog = PluginCatalog::standard();
  EXPECT_THAT(catalog.folders(), testing::ElementsAre("/a", "/b/c", executable_folder(), "/home/data/mortise/plugins"));
}

}  // namespace
}  // namespace mortise
