// runtime/plugin_index/index.hpp: the file index.json of an index: a line for each entry, enough to search in. Nobody
// signs it. Whoever installs a plugin verifies the plugin's entry, so a forged index.json can hide plugins, and it can
// offer an old version that was signed, but it cannot change one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin_index/index_entry.hpp"

namespace mortise {

inline constexpr const char* kIndexFile = "index.json";
inline constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

struct IndexLine {
  std::string entry;  // the entry's file name
  std::string id, version;
  std::uint32_t abi_major = 0, abi_minor = 0;
  std::string platform;
  std::vector<IndexedPart> parts;
};

// Throws an Error whose text continues a name and a colon.
std::vector<IndexLine> parse_index(std::string_view text);
std::string to_text(const std::vector<IndexLine>& lines);
IndexLine line_of(const IndexEntry& entry);

// The lines that have every word in their id, or in a part's name, kind, summary or numerics id. Small and capital
// letters are the same. Sorted by the first part's name, the newest version first.
std::vector<IndexLine> search(const std::vector<IndexLine>& lines, const std::vector<std::string>& words);

// Returns the line of the part `name` in `version`; without a version, the newest that this program can use. Throws an
// Error that says what there is instead.
const IndexLine& find_line(const std::vector<IndexLine>& lines, const std::string& name, const std::string& version);

}  // namespace mortise
