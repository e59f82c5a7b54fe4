#include "server/api_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <boost/algorithm/string/predicate.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <fstream>

#include "error.hpp"

namespace mortise {
namespace {

std::array<unsigned char, 32> hash_of(std::string_view key) {
  std::array<unsigned char, 32> hash;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
  return hash;
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) hashes_.push_back(hash_of(key));
}

bool ApiKeys::allow(std::string_view authorization) const {
  if (hashes_.empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  if (!boost::algorithm::istarts_with(authorization, kScheme)) return false;
  const std::string key = boost::algorithm::trim_copy(std::string(authorization.substr(kScheme.size())));
  const auto hash = hash_of(key);
  int num_equal = 0;
  for (const auto& known : hashes_) num_equal += CRYPTO_memcmp(known.data(), hash.data(), hash.size()) == 0;
  return num_equal > 0;
}

void check_api_key(std::string_view key, const std::string& where) {
  if (std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; })) return;
  fail("{}: an API key must be printable ASCII without spaces", where);
}

std::vector<std::string> read_api_keys(const std::string& file) {
  std::ifstream in(file);
  if (!in) fail("{}: the file of API keys cannot be read", file);
  std::vector<std::string> keys;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    boost::algorithm::trim(line);
    if (line.empty() || line.front() == '#') continue;
    check_api_key(line, fmt::format("{}:{}", file, number));
    keys.push_back(line);
  }
  if (keys.empty()) fail("{}: it has no API key; write one on each line", file);
  return keys;
}

}  // namespace mortise
