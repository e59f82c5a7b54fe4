// runtime/plugin_index/verified_plugin.hpp: what a plugin from elsewhere has to be before any of its code runs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plugin_index/index_entry.hpp"
#include "plugin_index/trusted_keys.hpp"

namespace mortise {

// The entry in `text`, if `signature` is that of a trusted key for exactly these bytes. Throws an Error whose text
// continues a name and a colon. An entry without a valid signature is not parsed.
struct VerifiedEntry {
  IndexEntry entry;
  std::string key_id;
};
VerifiedEntry verified_entry(std::string_view text, const Signature& signature, const TrustedKeys& trusted);

// Throws an Error unless `bytes` are the file that the entry describes: its size, its SHA-256, and the parts that the
// file itself describes, if they can be read without running it (mortise/manifest.h).
void check_plugin_bytes(const IndexEntry& entry, std::span<const char> bytes);

}  // namespace mortise
