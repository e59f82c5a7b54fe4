#include "plugin_index/signature.hpp"

#include "index_fixture.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

constexpr std::string_view kMessage = "\xaf\x82";
constexpr const char* kSignatureText =
    R"({"format": "mortise-signature/1", "key": "dac073e0123bdea59dd9b3bda9cf6037", "signature":
"YpHWV97sJAJIJ+acOr4BowzlSKKEdDpEXjaA19taw6wY/5tTjRbykK5n92CYTcZZSnwV6XFu0o3AJ77O6h7ECg=="})";

TEST(Signature, IsThatOfRfc8032) {
  const PublicKey key = parse_public_key(kPublicPem);
  EXPECT_EQ(key.id(), kKeyId);
  EXPECT_EQ(to_pem(key), kPublicPem);
  const Signature made = sign(kMessage, kPrivatePem);
  const Signature expected = parse_signature(kSignatureText);
  EXPECT_EQ(made.bytes, expected.bytes);
  EXPECT_EQ(made.key_id, kKeyId);
  EXPECT_TRUE(verifies(key, kMessage, expected));
}

TEST(Signature, VerifiesNothingElse) {
  const PublicKey key = parse_public_key(kPublicPem);
  const Signature signature = sign(kMessage, kPrivatePem);
  EXPECT_FALSE(verifies(key, "", signature));
  EXPECT_FALSE(verifies(key, "\xaf\x83", signature));
  for (std::size_t i = 0; i < signature.bytes.size(); ++i) {
    Signature changed = signature;
    changed.bytes[i] ^= 1;
    EXPECT_FALSE(verifies(key, kMessage, changed)) << i;
  }
  PublicKey other = key;
  other.bytes[0] ^= 1;
  EXPECT_FALSE(verifies(other, kMessage, signature));
}

TEST(Signature, IsWhatWasWritten) {
  const Signature signature = sign("x", kPrivatePem);
  const Signature read = parse_signature(to_text(signature));
  EXPECT_EQ(read.bytes, signature.bytes);
  EXPECT_EQ(read.key_id, signature.key_id);
}

TEST(Signature, SaysWhatIsWrong) {
  EXPECT_THAT(error_of([] { parse_signature("{}"); }), HasSubstr("this is not a signature"));
  nlohmann::json json = nlohmann::json::parse(to_text(sign("x", kPrivatePem)));
  for (const std::string& text : {std::string("QUJD"), std::string(88, '*'), std::string(86, 'A') + "AA"}) {
    json["signature"] = text;
    EXPECT_THAT(error_of([&] { parse_signature(json.dump()); }), HasSubstr("is not the Base64 of 64 bytes")) << text;
  }
}

TEST(Signature, TakesNoOtherKeys) {
  EXPECT_THAT(error_of([] { parse_public_key("no key"); }), HasSubstr("there is no public key in PEM form in it"));
  EXPECT_THAT(error_of([] { parse_public_key(kPrivatePem); }),
              HasSubstr("this is a private key, which stays with its owner"));
  const std::string two = std::string(kPublicPem) + kPublicPem;
  EXPECT_THAT(error_of([&] { parse_public_key(two); }), HasSubstr("there are several keys in it"));
  EXPECT_THAT(error_of([] { sign("x", kPublicPem); }), HasSubstr("no private key in PEM form without a pass phrase"));
  // P-256, from `openssl ecparam -name prime256v1 -genkey`.
  constexpr const char* kOther =
      "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWXzCsv4JsbrMsbB8Ng+dTJV5A8Kh\n"
      "SyaHgJFiSu2wT7aMRUeDPJO7NyqzH0tR5hzoauosTHYbPzKVvfP72EbiIQ==\n-----END PUBLIC KEY-----\n";
  EXPECT_THAT(error_of([] { parse_public_key(kOther); }), HasSubstr("the key is not of the kind ed25519"));
}

}  // namespace
}  // namespace mortise
