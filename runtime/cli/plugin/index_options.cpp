#include "cli/plugin/index_options.hpp"

#include "cli/plugin/source.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace mortise {

const CLI::Validator kNotEmpty([](std::string& text) { return text.empty() ? "it is empty" : std::string(); }, "");

void add_index_options(CLI::App& command, IndexOptions& options) {
  command
      .add_option("--index", options.index,
                  "url or folder of the index (default: $MORTISE_PLUGIN_INDEX; no other is asked)")
      ->check(kNotEmpty);
  command.add_option("--cacert", options.ca_file,
                     "PEM file of the certificate authorities to trust for https (default: the system's)");
}

std::string index_location(const IndexOptions& options) {
  std::string location = options.index;
  if (location.empty()) location = environment::read(environment::kPluginIndex).value_or("");
  if (location.empty()) fail("no index of plugins is named: give --index URL|FOLDER, or set MORTISE_PLUGIN_INDEX");
  // The location may also name the index file in place of its folder.
  const std::string file = std::string("/") + kIndexFile;
  if (location.ends_with(file)) location.resize(location.size() - file.size());
  return location;
}

std::vector<IndexLine> read_index(const IndexOptions& options) {
  const std::string location = inside(index_location(options), kIndexFile);
  const std::string text = read_source(location, kMaxIndexBytes, options.ca_file);
  try {
    return parse_index(text);
  } catch (const Error& error) {
    fail("{}: {}", location, error.what());
  }
}

}  // namespace mortise
