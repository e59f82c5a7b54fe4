// runtime/server/api_keys.hpp: the keys that requests must have. A key is compared by its SHA-256 hash.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// The keys of a server. Constant, so any thread may use it. Invariant: only hashes of keys are kept.
class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  // Whether the header Authorization ("Bearer KEY") has one of the keys. Without keys every request is allowed. The
  // time reveals nothing about the keys: the hashes of all keys are compared, in constant time.
  bool allow(std::string_view authorization) const;
  bool empty() const { return hashes_.empty(); }

 private:
  std::vector<std::array<unsigned char, 32>> hashes_;  // SHA-256
};

// Throws an Error, which names `where`, if no HTTP header can hold the key.
void check_api_key(std::string_view key, const std::string& where);

// Reads one key per line; skips empty lines and lines that begin with '#'. Throws an Error if the file cannot be read,
// has no key, or has a key with a space or a character outside of printable ASCII.
std::vector<std::string> read_api_keys(const std::string& file);

}  // namespace mortise
