#include "plugin_index/verified_plugin.hpp"

#include "error.hpp"
#include "loader/module_manifest.hpp"
#include "loader/plugin_file.hpp"

namespace mortise {
namespace {

std::string described(std::string_view name, std::int32_t kind) {
  return fmt::format("{} '{}'", kind_name(static_cast<PartKind>(kind)), plugin_text(std::string(name).c_str(), 64));
}

void check_manifest(const IndexEntry& entry, const ModuleManifest& manifest) {
  std::string in_entry, in_file;
  for (const IndexedPart& part : entry.parts) {
    in_entry += (in_entry.empty() ? "" : ", ") + described(part.name, static_cast<std::int32_t>(part.kind));
  }
  for (const ComponentManifest& part : manifest.components) {
    in_file += (in_file.empty() ? "" : ", ") + described(part.name, part.kind);
  }
  if (in_entry != in_file) fail("the entry describes {}, and the file itself {}", in_entry, in_file);
  if (entry.id != manifest.id || entry.license != manifest.license) {
    fail("the entry has the id {} and the license {}, but the file has {} and {}", entry.id, entry.license,
         plugin_text(manifest.id.c_str(), 200), plugin_text(manifest.license.c_str(), 200));
  }
  if (entry.version != manifest.version || entry.abi_minor != manifest.abi_minor) {
    fail("the entry describes version {} for ABI {}.{}, and the file itself version {} for ABI {}.{}", entry.version,
         entry.abi_major, entry.abi_minor, plugin_text(manifest.version.c_str(), 64), MORTISE_ABI_MAJOR,
         manifest.abi_minor);
  }
}

}  // namespace

VerifiedEntry verified_entry(std::string_view text, const Signature& signed_by, const TrustedKeys& trusted) {
  const auto key = trusted.find(signed_by.key_id);
  if (!key) {
    fail(
        "it is signed with the key {}, which is not trusted here; if you know whose it is, get the key from its owner "
        "and run: mortise plugin trust KEY.pem",
        signed_by.key_id);
  }
  if (!verifies(*key, text, signed_by)) {
    fail("the signature is not that of the key {} for this entry: somebody changed one of them", signed_by.key_id);
  }
  return {parse_index_entry(text), signed_by.key_id};
}

void check_plugin_bytes(const IndexEntry& entry, std::span<const char> bytes) {
  if (bytes.size() != entry.size) {
    fail("the file has {} bytes, and its entry says {}; it was changed or cut off", bytes.size(), entry.size);
  }
  const std::string sha256 = plugin_sha256(bytes);
  if (sha256 != entry.sha256) {
    fail("the file's SHA-256 is {}, but its entry asks for {}: the file was changed", sha256, entry.sha256);
  }
  if (const auto manifest = read_module_manifest(bytes)) check_manifest(entry, *manifest);
}

}  // namespace mortise
