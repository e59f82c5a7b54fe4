#include "plugin_index/signature.hpp"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "plugin_index/index_entry.hpp"

namespace mortise {
namespace {

constexpr const char* kSignatureFormat = "mortise-signature/1";
constexpr std::size_t kBase64Bytes = 88;  // of 64 bytes

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Bio memory_of(std::string_view text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

// Never asks for a pass phrase at the terminal: a key that has one is refused.
int no_pass_phrase(char*, int, int, void*) {
  return -1;
}

PublicKey public_half(EVP_PKEY* key) {
  PublicKey found;
  std::size_t size = found.bytes.size();
  if (EVP_PKEY_get_id(key) != EVP_PKEY_ED25519 || EVP_PKEY_get_raw_public_key(key, found.bytes.data(), &size) != 1) {
    fail("the key is not of the kind ed25519; make one with: openssl genpkey -algorithm ed25519 -out my.key");
  }
  return found;
}

Key opened(const PublicKey& key) {
  return {EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.bytes.data(), key.bytes.size()), EVP_PKEY_free};
}

}  // namespace

std::string PublicKey::id() const {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(bytes.data(), bytes.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(16), ""));
}

PublicKey parse_public_key(std::string_view pem) {
  const Bio bio = memory_of(pem);
  const Key key(PEM_read_bio_PUBKEY(bio.get(), nullptr, no_pass_phrase, nullptr), EVP_PKEY_free);
  if (!key && pem.find("PRIVATE KEY") != std::string_view::npos) {
    fail(
        "this is a private key, which stays with its owner; write its public key with: openssl pkey -in my.key "
        "-pubout");
  }
  if (!key) fail("there is no public key in PEM form in it");
  constexpr std::string_view kBegin = "-----BEGIN PUBLIC KEY";
  if (pem.find(kBegin, pem.find(kBegin) + 1) != std::string_view::npos)
    fail("there are several keys in it; write each into a file of its own");
  return public_half(key.get());
}

std::string to_pem(const PublicKey& key) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_PUBKEY(bio.get(), opened(key).get());
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

Signature sign(std::string_view message, std::string_view private_key_pem) {
  const Bio bio = memory_of(private_key_pem);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_pass_phrase, nullptr), EVP_PKEY_free);
  if (!key) {
    fail(
        "no private key in PEM form without a pass phrase is in it; make one with: openssl genpkey -algorithm ed25519 "
        "-out my.key");
  }
  Signature signature{public_half(key.get()).id()};
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::size_t size = signature.bytes.size();
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.bytes.data(), &size, bytes_of(message), message.size()) != 1) {
    fail("OpenSSL cannot sign with the key");
  }
  return signature;
}

bool verifies(const PublicKey& key, std::string_view message, const Signature& signature) {
  const Key opened_key = opened(key);
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, opened_key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.bytes.data(), signature.bytes.size(), bytes_of(message),
                          message.size()) == 1;
}

std::string to_text(const Signature& signature) {
  std::array<unsigned char, kBase64Bytes + 1> base64;
  EVP_EncodeBlock(base64.data(), signature.bytes.data(), static_cast<int>(signature.bytes.size()));
  nlohmann::ordered_json json;
  json["format"] = kSignatureFormat;
  json["key"] = signature.key_id;
  json["signature"] = std::string(base64.begin(), base64.end() - 1);
  return json.dump(2) + "\n";
}

Signature parse_signature(std::string_view text) {
  const nlohmann::json json = parse_json(text);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kSignatureFormat) {
    fail("this is not a signature: it has no \"format\": \"{}\"", kSignatureFormat);
  }
  Signature signature{name_field(json, "key")};
  const std::string base64 = text_field(json, "signature", kBase64Bytes);
  // EVP_DecodeBlock writes three bytes for four digits: 64 bytes and two of the padding.
  std::array<unsigned char, kBase64Bytes / 4 * 3> bytes;
  if (base64.size() != kBase64Bytes || !base64.ends_with("==") ||
      EVP_DecodeBlock(bytes.data(), bytes_of(base64), static_cast<int>(base64.size())) !=
          static_cast<int>(bytes.size())) {
    fail("'signature' is not the Base64 of 64 bytes");
  }
  std::copy_n(bytes.begin(), signature.bytes.size(), signature.bytes.begin());
  return signature;
}

}  // namespace mortise
