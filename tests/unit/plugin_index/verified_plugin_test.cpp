#include "plugin_index/verified_plugin.hpp"

#include "index_fixture.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

class VerifiedPlugin : public testing::Test {
 protected:
  TempFolder folder_;
  TrustedKeys keys_{folder_.path()};
  std::string text_ = to_json(some_entry()).dump(2);
  Signature signature_ = sign(text_, kPrivatePem);
};

TEST_F(VerifiedPlugin, HasTheSignatureOfATrustedKey) {
  EXPECT_THAT(error_of([&] { verified_entry(text_, signature_, keys_); }),
              HasSubstr(std::string("it is signed with the key ") + kKeyId + ", which is not trusted here"));
  keys_.add(parse_public_key(kPublicPem));
  const VerifiedEntry verified = verified_entry(text_, signature_, keys_);
  EXPECT_EQ(verified.entry.id, "org.example.suffix");
  EXPECT_EQ(verified.key_id, kKeyId);
}

TEST_F(VerifiedPlugin, IsRefusedAfterAnyChange) {
  keys_.add(parse_public_key(kPublicPem));
  constexpr const char* kText = "somebody changed one of them";
  for (std::size_t i = 0; i < text_.size(); ++i) {
    std::string changed = text_;
    changed[i] ^= 1;
    EXPECT_THAT(error_of([&] { verified_entry(changed, signature_, keys_); }), HasSubstr(kText)) << i;
  }
  EXPECT_THAT(error_of([&] { verified_entry(text_ + "\n", signature_, keys_); }), HasSubstr(kText));
  const Signature of_other = sign("other", kPrivatePem);
  EXPECT_THAT(error_of([&] { verified_entry(text_, of_other, keys_); }), HasSubstr(kText));
}

TEST_F(VerifiedPlugin, IsTheFileThatItsEntryDescribes) {
  std::vector<char> bytes = read_bytes(good("toy_device"));
  const IndexEntry entry = entry_of_toy_device();
  check_plugin_bytes(entry, bytes);
  bytes.push_back('x');
  EXPECT_THAT(error_of([&] { check_plugin_bytes(entry, bytes); }), HasSubstr("it was changed or cut off"));
  bytes.pop_back();
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_THAT(error_of([&] { check_plugin_bytes(entry, bytes); }),
              HasSubstr("but its entry asks for " + entry.sha256 + ": the file was changed"));
}

TEST_F(VerifiedPlugin, DescribesItselfAsItsEntryDoes) {
  const std::vector<char> bytes = read_bytes(good("toy_device"));
  IndexEntry entry = entry_of_toy_device();
  entry.parts.front().name = "other";
  EXPECT_THAT(error_of([&] { check_plugin_bytes(entry, bytes); }), HasSubstr("the entry describes device 'other'"));
  entry = entry_of_toy_device();
  entry.id = "org.other";
  EXPECT_THAT(error_of([&] { check_plugin_bytes(entry, bytes); }),
              HasSubstr("the entry has the id org.other and the license"));
  entry = entry_of_toy_device();
  entry.version = "99";
  EXPECT_THAT(error_of([&] { check_plugin_bytes(entry, bytes); }), HasSubstr("the entry describes version 99 for ABI"));
}

}  // namespace
}  // namespace mortise
