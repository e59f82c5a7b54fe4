#include "plugin_index/publication.hpp"

#include <algorithm>

#include "error.hpp"
#include "loader/plugin_file.hpp"
#include "plugin_index/index.hpp"
#include "plugin_index/signature.hpp"
#include "plugin_index/whole_file.hpp"

namespace mortise {
namespace fs = std::filesystem;
namespace {

IndexEntry read_entry(const fs::path& path) {
  const std::string text = read_whole_file(path, kMaxEntryBytes);
  try {
    return parse_index_entry(text);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

void write_index(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".json" && file.path().filename() != kIndexFile) paths.push_back(file.path());
  }
  std::ranges::sort(paths);
  std::vector<IndexLine> lines;
  for (const fs::path& path : paths) {
    lines.push_back(line_of(read_entry(path)));
    lines.back().entry = path.filename().string();
  }
  write_whole_file(folder / kIndexFile, to_text(lines));
}

}  // namespace

std::string signature_file(const std::string& entry_file) {
  return entry_file + ".sig";
}

fs::path publish(const fs::path& folder, IndexEntry entry, std::string_view bytes, std::string_view private_key_pem) {
  const std::string stem = entry_stem(entry);
  entry.file = stem + ".so";
  entry.size = bytes.size();
  entry.sha256 = plugin_sha256(bytes);
  const fs::path path = folder / (stem + ".json");
  std::error_code error;
  if (fs::exists(path, error) && read_entry(path).sha256 != entry.sha256) {
    fail(
        "{}: version {} is published with other bytes; give the plugin a new version, because users pin a version's "
        "hash",
        path.string(), entry.version);
  }
  // A plugin's summary need not be UTF-8.
  const std::string text = to_json(entry).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  try {
    parse_index_entry(text);  // what nobody could install is not published
  } catch (const Error& unreadable) {
    fail("the plugin's description cannot be an entry: {}", unreadable.what());
  }
  const std::string signature = to_text(sign(text, private_key_pem));
  write_whole_file(folder / entry.file, bytes);
  write_whole_file(folder / signature_file(path.filename().string()), signature);
  write_whole_file(path, text);
  write_index(folder);
  return path;
}

}  // namespace mortise
