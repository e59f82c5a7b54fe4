// runtime/pipeline/part_change.hpp: changes one key of pipeline { ... } for a swap, without a script: typed by a
// person, or sent in an admin request.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "loader/catalog.hpp"
#include "pipeline/description.hpp"

namespace mortise {

// A change, like attention = cascade { block_size = 16 } in a script. Missing options have their defaults, except a
// model's `path`, which is kept.
struct PartChange {
  std::string key;     // "device", "model", "attention", "scheduler", "proposer", "kv_cache" or "speculation"
  std::string plugin;  // a name or a file, "./mine.so"; "" for kv_cache and speculation. Of proposer also "none", and
                       // "first_of" for several: its options are {"proposers": [{"plugin": ..., "options": ...}]}
  nlohmann::json options = nlohmann::json::object();
};

// Parses "attention cascade {block_size = 16}" or "proposer first_of {ngram {}, draft_model {path = '...'}}". The part
// in braces is Lua and optional. Throws an Error that explains the syntax.
PartChange parse_part_change(std::string_view text);

// Returns the description with the changed key. Relative plugin files and paths among the options are resolved against
// `folder`. Throws an Error that names the wrong key, plugin or option.
PipelineDescription with_change(PipelineDescription pipeline, const PartChange& change, const PluginCatalog& catalog,
                                const std::filesystem::path& folder);

// Returns a part of that kind: an installed plugin by name, or a plugin file ("./mine.so"). Throws an Error that names
// the plugin or the option.
PartDescription find_part(const PluginCatalog& catalog, PartKind kind, const std::string& plugin,
                          const nlohmann::json& options, const std::filesystem::path& folder);

}  // namespace mortise
