#include "plugin_index/publication.hpp"

#include "index_fixture.hpp"
#include "plugin_index/index.hpp"
#include "plugin_index/verified_plugin.hpp"
#include "plugin_index/whole_file.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(Publication, CanBeVerified) {
  const TempFolder folder;
  const fs::path index = folder.path() / "index";
  const fs::path path = publish(index, some_entry(), "abc", kPrivatePem);
  EXPECT_EQ(path, index / "suffix-1.0.0.json");
  const TrustedKeys keys(folder.path() / "keys");
  keys.add(parse_public_key(kPublicPem));
  const std::string text = read_whole_file(path, kMaxEntryBytes);
  const VerifiedEntry verified =
      verified_entry(text, parse_signature(read_whole_file(signature_file(path.string()), kMaxSignatureBytes)), keys);
  EXPECT_EQ(verified.entry.file, "suffix-1.0.0.so");
  EXPECT_EQ(verified.entry.size, 3u);
  EXPECT_EQ(verified.entry.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(read_whole_file(index / verified.entry.file, 100), "abc");
}

TEST(Publication, MakesTheIndexOfAllEntries) {
  const TempFolder folder;
  IndexEntry entry = some_entry();
  publish(folder.path(), entry, "abc", kPrivatePem);
  entry.version = "1.1.0";
  publish(folder.path(), entry, "abcd", kPrivatePem);
  publish(folder.path(), entry, "abcd", kPrivatePem);  // again: nothing is there twice
  const auto lines = parse_index(read_whole_file(folder.path() / kIndexFile, kMaxIndexBytes));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].entry, "suffix-1.0.0.json");
  EXPECT_EQ(lines[1].entry, "suffix-1.1.0.json");
}

TEST(Publication, ChangesNoPublishedVersion) {
  const TempFolder folder;
  publish(folder.path(), some_entry(), "abc", kPrivatePem);
  EXPECT_THAT(error_of([&] { publish(folder.path(), some_entry(), "abd", kPrivatePem); }),
              HasSubstr("version 1.0.0 is published with other bytes"));
  EXPECT_EQ(read_whole_file(folder.path() / "suffix-1.0.0.so", 100), "abc");
}

TEST(Publication, RefusesWhatNobodyCouldInstall) {
  const TempFolder folder;
  IndexEntry entry = some_entry();
  entry.vendor = "";
  EXPECT_THAT(error_of([&] { publish(folder.path(), entry, "abc", kPrivatePem); }),
              HasSubstr("the plugin's description cannot be an entry: 'vendor' is not a line"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  folder.write("notes.json", "[]");
  EXPECT_THAT(error_of([&] { publish(folder.path(), some_entry(), "abc", kPrivatePem); }),
              HasSubstr("notes.json: this is not an entry of a plugin index"));
}

}  // namespace
}  // namespace mortise
