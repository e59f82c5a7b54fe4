// runtime/pipeline/constructors.hpp: the words of a pipeline script: one constructor a plugin, plugin("file.so"),
// first_of { ... } and pipeline { ... }. They check what they are given at once, so that an error names the line where
// it was written.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/catalog.hpp"
#include "lua.h"
#include "pipeline/description.hpp"

namespace mortise {

inline constexpr std::size_t kMaxPipelines = 100;  // of a script; each is a copy of its parts

// What the constructors of one script made. Lua holds indices into it (a part or a pipeline is a userdata with one),
// so nothing of C++ has to be destroyed by Lua's collector.
struct ScriptParts {
  const PluginCatalog* catalog;
  std::filesystem::path folder;  // of the script
  bool loading = true;           // constructors work while the script runs, not in its callbacks

  std::vector<std::vector<const Component*>> constructors;
  std::map<std::string, std::size_t> found;  // of them, those that were looked up by name
  std::vector<PartDescription> parts;
  std::vector<std::vector<PartDescription>> proposers;  // of first_of's lists
  std::vector<PipelineDescription> pipelines;
};

// Why a script has no global of this name, for names of Lua's library that it does not get; "" for other names.
std::string why_absent(std::string_view name);

// Adds `plugin`, `first_of` and `pipeline`, and makes every other unknown global a look-up of a plugin by that name: a
// script loads only the files that it names, and a slip in a name is an error with a suggestion. `parts` must outlive
// the state.
void open_constructors(lua_State* L, ScriptParts& parts);

// Throws an Error when proposers cannot stand in one first_of: none or too many (`count`), or one name twice. Of too
// many only the first need be there.
void check_alternatives(std::size_t count, std::span<const PartDescription> proposers);

// The index into parts.pipelines of the value at `index`, or nullopt when that is no pipeline.
std::optional<std::size_t> pipeline_at(lua_State* L, int index);

}  // namespace mortise
