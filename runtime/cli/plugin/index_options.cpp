#include "cli/plugin/index_options.hpp"

#include "cli/plugin/source.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace mortise {

void add_index_options(CLI::App& command, IndexOptions& options) {
  command.add_option("--index", options.index,
                     "url or folder of the index (default: $MORTISE_PLUGIN_INDEX; no other is asked)");
  command.add_option("--cacert", options.ca_file,
                     "PEM file of the certificate authorities to trust for https (default: the system's)");
}

std::string index_location(const IndexOptions& options) {
  if (!options.index.empty()) return options.index;
  const auto location = environment::read(environment::kPluginIndex);
  if (!location) fail("no index of plugins is named: give --index URL|FOLDER, or set MORTISE_PLUGIN_INDEX");
  return *location;
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
