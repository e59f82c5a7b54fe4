// runtime/server/api_keys.hpp: who may ask.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  // Whether the value of the header Authorization ("Bearer KEY") has one of the keys. Without keys everybody may ask.
  // How long it takes tells nothing about the keys: hashes are compared, all of them, in constant time.
  bool allow(std::string_view authorization) const;
  bool empty() const { return hashes_.empty(); }

 private:
  std::vector<std::array<unsigned char, 32>> hashes_;  // SHA-256
};

// Throws an Error, of `where`, when no header could bear the key.
void check_api_key(std::string_view key, const std::string& where);

// One key a line; empty lines and lines that begin with '#' are left out. Throws an Error when the file cannot be read,
// has no key, or has one with a space in it or beyond printable ASCII.
std::vector<std::string> read_api_keys(const std::string& file);

}  // namespace mortise
