// runtime/plugin_index/signature.hpp: Ed25519 signatures (RFC 8032) through OpenSSL. Keys are PEM files, as
// `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write them.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace mortise {

inline constexpr std::size_t kMaxKeyBytes = std::size_t{1} << 16;        // of a PEM file
inline constexpr std::size_t kMaxSignatureBytes = std::size_t{1} << 16;  // of a signature's file

// The key of somebody who signs plugins. A value.
struct PublicKey {
  std::array<unsigned char, 32> bytes{};

  // Returns the first 32 hexadecimal digits of the SHA-256 of `bytes`.
  std::string id() const;
  bool operator==(const PublicKey&) const = default;
};

struct Signature {
  std::string key_id;
  std::array<unsigned char, 64> bytes{};
};

// These throw an Error whose text continues a name and a colon. A file with a private key is no public key.
PublicKey parse_public_key(std::string_view pem);
std::string to_pem(const PublicKey& key);

// Signs `message` with the private key in `pem`.
Signature sign(std::string_view message, std::string_view private_key_pem);
bool verifies(const PublicKey& key, std::string_view message, const Signature& signature);

// Returns the text of a signature's file: {"format": "mortise-signature/1", "key": ID, "signature": BASE64}.
std::string to_text(const Signature& signature);
Signature parse_signature(std::string_view text);

}  // namespace mortise
