// runtime/plugin_index/index_entry.hpp: one version of a plugin in an index, as JSON. An entry comes from a stranger
// until its signature was verified, so every field is checked as it is parsed. README.md shows an entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "loader/component.hpp"

namespace mortise {

inline constexpr std::size_t kMaxEntryBytes = std::size_t{1} << 20;
inline constexpr std::uint64_t kMaxPluginFileBytes = std::uint64_t{2} << 30;

struct IndexedPart {
  std::string name;
  PartKind kind{};
  std::string summary;
  std::vector<std::string> numerics;  // numerics ids; a device has one for each type that it computes in
};

// What the conformance suite said of the plugin when it was published.
struct PublishedCheck {
  std::string mortise;  // the version of the program that ran it
  std::string level;    // "quick", "full"
  std::size_t passed = 0, not_applicable = 0;
  nlohmann::json options = nlohmann::json::object();  // of the component, for one without defaults
};

struct IndexEntry {
  std::string id, version, vendor, license;  // of mortise_module
  std::uint32_t abi_major = 0, abi_minor = 0;
  std::string platform;  // "linux-x86_64"
  std::string file;      // the plugin's file name, in the entry's folder
  std::uint64_t size = 0;
  std::string sha256;  // of the plugin's bytes, lower-case hexadecimal digits
  std::vector<IndexedPart> parts;
  PublishedCheck check;
};

// Throws an Error whose text continues a name and a colon.
IndexEntry parse_index_entry(std::string_view text);
nlohmann::ordered_json to_json(const IndexEntry& entry);

// Returns "suffix-1.0.0", the name of the entry's file without its extension.
std::string entry_stem(const IndexEntry& entry);

// The platform that this program runs on and takes plugins for.
std::string this_platform();

// The reason why this program cannot use the plugin (its ABI or its platform); "" if it can.
std::string unusable_here(std::uint32_t abi_major, std::uint32_t abi_minor, std::string_view platform);

// Read and write the parts, in the form that entries and an index's lines share; parse_parts throws an Error that names
// the field.
std::vector<IndexedPart> parse_parts(const nlohmann::json& object);
nlohmann::ordered_json parts_to_json(const std::vector<IndexedPart>& parts);
// Returns object[key], a text of 1 to `limit` bytes without control characters.
std::string text_field(const nlohmann::json& object, const char* key, std::size_t limit);
// Reads as text_field does, but takes only letters, digits, and ".-_+", and no dot at the beginning: safe as part of a
// file's name.
std::string name_field(const nlohmann::json& object, const char* key);
// Returns object["abi"], "MAJOR.MINOR", as two numbers.
std::pair<std::uint32_t, std::uint32_t> abi_field(const nlohmann::json& object);

}  // namespace mortise
