#include "plugin_index/trusted_keys.hpp"

#include "index_fixture.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(TrustedKeys, AreThoseThatWereAdded) {
  const TempFolder folder;
  const TrustedKeys keys(folder.path() / "below" / "keys");
  EXPECT_TRUE(keys.list().empty());
  EXPECT_FALSE(keys.find(kKeyId).has_value());
  const PublicKey key = parse_public_key(kPublicPem);
  const fs::path path = keys.add(key);
  EXPECT_EQ(path, keys.folder() / (std::string(kKeyId) + ".pem"));
  EXPECT_EQ(keys.add(key), path);
  EXPECT_EQ(keys.list().size(), 1u);
  EXPECT_EQ(keys.find(kKeyId), key);
  EXPECT_THAT(keys.remove(kKeyId), testing::ElementsAre(path));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_THAT(error_of([&] { keys.remove(kKeyId); }),
              HasSubstr("is trusted; `mortise plugin trust` lists those that are"));
}

TEST(TrustedKeys, AreKnownByTheKeyAndNotByTheFilesName) {
  const TempFolder folder;
  folder.write("alice.pem", kPublicPem);
  folder.write("notes.txt", "no key");
  const TrustedKeys keys(folder.path());
  EXPECT_TRUE(keys.find(kKeyId).has_value());
  EXPECT_EQ(keys.add(parse_public_key(kPublicPem)), folder.path() / "alice.pem");
}

TEST(TrustedKeys, SayWhichFileHasNone) {
  const TempFolder folder;
  folder.write("broken.pem", "no key");
  folder.write("good.pem", kPublicPem);
  std::vector<std::string> broken;
  EXPECT_EQ(TrustedKeys(folder.path()).list(&broken).size(), 1u);
  EXPECT_THAT(broken, testing::ElementsAre(HasSubstr("broken.pem: there is no public key in PEM form in it")));
  EXPECT_THAT(error_of([&] { TrustedKeys(folder.path() / "broken.pem").list(); }), HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace mortise
