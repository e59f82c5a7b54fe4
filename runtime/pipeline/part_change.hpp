// runtime/pipeline/part_change.hpp: one key of pipeline { ... } said anew, for a swap: from a person, an operator's
// request, or anybody who has no script.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "loader/catalog.hpp"
#include "pipeline/description.hpp"

namespace mortise {

// As a script would write it: attention = cascade { block_size = 16 }. What `options` leave out has its default, but
// for the `path` of a model, which stays.
struct PartChange {
  std::string key;     // "device", "model", "attention", "scheduler", "proposer", "kv_cache" or "speculation"
  std::string plugin;  // a name or a file, "./mine.so"; "" for kv_cache and speculation. Of proposer also "none", and
                       // "first_of" for several: its options are {"proposers": [{"plugin": ..., "options": ...}]}
  nlohmann::json options = nlohmann::json::object();
};

// "attention cascade {block_size = 16}" or "proposer first_of {ngram {}, draft_model {path = '...'}}", as a person
// types it; what is in braces is Lua, and may be left out. Throws an Error that says how it is written.
PartChange parse_part_change(std::string_view text);

// The description with that key said anew. A file, and a path among the options, that is relative is taken from
// `folder`. Throws an Error that names the key, plugin or option at fault.
PipelineDescription with_change(PipelineDescription pipeline, const PartChange& change, const PluginCatalog& catalog,
                                const std::filesystem::path& folder);

// The part of that kind: an installed plugin by its name, or a plugin file ("./mine.so"). Throws an Error that names
// plugin or option.
PartDescription find_part(const PluginCatalog& catalog, PartKind kind, const std::string& plugin,
                          const nlohmann::json& options, const std::filesystem::path& folder);

}  // namespace mortise
