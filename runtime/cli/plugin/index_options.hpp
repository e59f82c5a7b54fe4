// runtime/cli/plugin/index_options.hpp: arguments that `plugin search` and `plugin install` share.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <string>
#include <vector>

#include "plugin_index/index.hpp"

namespace mortise {

// Refuses an empty argument, such as an unset variable of a script.
extern const CLI::Validator kNotEmpty;

struct IndexOptions {
  std::string index;    // a url or a folder; empty: MORTISE_PLUGIN_INDEX
  std::string ca_file;  // for https
};

void add_index_options(CLI::App& command, IndexOptions& options);

// Returns where the index is. Throws an Error if the user did not say: there is no default index.
std::string index_location(const IndexOptions& options);

// Reads and parses index.json. Throws an Error that begins with its location.
std::vector<IndexLine> read_index(const IndexOptions& options);

}  // namespace mortise
