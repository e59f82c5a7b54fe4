// tests/unit/plugin_index/index_fixture.hpp: an entry and keys that the tests of this folder share.
#pragma once

#include "loader/plugin_file.hpp"
#include "plugin_index/index_entry.hpp"
#include "test_support.hpp"

namespace mortise::test {

// The keys of RFC 8032, section 7.1, test 3.
inline constexpr const char* kPrivatePem =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIMWqjfQ/n4N77bdELzHct7Fm04U1B28JS4XOOi4LRFj3\n"
    "-----END PRIVATE KEY-----\n";
inline constexpr const char* kPublicPem =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA/FHNjmIYoaONpH7QAjDwWAgW7RO6MwOsXeuRFUiQgCU=\n"
    "-----END PUBLIC KEY-----\n";
inline constexpr const char* kKeyId = "dac073e0123bdea59dd9b3bda9cf6037";

inline IndexEntry some_entry() {
  IndexEntry entry;
  entry.id = "org.example.suffix";
  entry.version = "1.0.0";
  entry.vendor = "Example";
  entry.license = "MIT";
  entry.abi_major = MORTISE_ABI_MAJOR;
  entry.abi_minor = MORTISE_ABI_MINOR;
  entry.platform = this_platform();
  entry.file = "suffix-1.0.0.so";
  entry.size = 3;
  entry.sha256 = std::string(64, '0');
  entry.parts = {{"suffix", PartKind::kProposer, "Drafts from a suffix automaton.", {}},
                 {"toy", PartKind::kAttention, "An attention.", {"attention-span256/1"}}};
  entry.check = {"0.1.0", "quick", 30, 4, {{"depth", 3}}};
  return entry;
}

// The entry that describes the test plugin toy_device.
inline IndexEntry entry_of_toy_device() {
  const PluginFile& file = load_plugin_file(good("toy_device"));
  IndexEntry entry = some_entry();
  entry.id = file.id;
  entry.license = file.license;
  entry.version = file.version;
  entry.abi_minor = file.abi_minor;
  entry.parts.clear();
  for (const Component& component : file.components) {
    entry.parts.push_back({component.name, component.kind, component.summary, {}});
  }
  const std::vector<char> bytes = read_bytes(good("toy_device"));
  entry.size = bytes.size();
  entry.sha256 = plugin_sha256(bytes);
  return entry;
}

}  // namespace mortise::test
