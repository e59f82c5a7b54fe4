// runtime/plugin_index/publication.hpp: adds a plugin to an index that is a folder of this machine, from where any web
// server can serve it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plugin_index/index_entry.hpp"

namespace mortise {

// Returns the name of an entry's signature file: "suffix-1.0.0.json.sig".
std::string signature_file(const std::string& entry_file);

// Writes the plugin's bytes, its entry with the file's name, size and hash filled in, and the entry's signature, and
// then index.json anew from all entries of the folder. Returns the path of the entry. Throws an Error if this version
// was published with other bytes, a file cannot be written, or another entry of the folder cannot be read.
std::filesystem::path publish(const std::filesystem::path& folder, IndexEntry entry, std::string_view bytes,
                              std::string_view private_key_pem);

}  // namespace mortise
