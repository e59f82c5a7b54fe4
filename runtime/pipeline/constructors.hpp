// runtime/pipeline/constructors.hpp: the functions of a pipeline script: a constructor for each plugin,
// plugin("file.so"), first_of { ... } and pipeline { ... }. They check their arguments at once, so that an error names
// the line.
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

inline constexpr std::size_t kMaxPipelines = 100;  // in a script; each is a copy of its parts

// Everything that the constructors of one script made. Lua holds only indices into it (a part or a pipeline is a
// userdata with an index), so Lua's collector has no C++ object to destroy.
struct ScriptParts {
  const PluginCatalog* catalog;
  std::filesystem::path folder;  // of the script
  bool loading = true;           // constructors work only while the script runs, not in its callbacks

  std::vector<std::vector<const Component*>> constructors;
  std::map<std::string, std::size_t> found;  // indices of the parts that were looked up by name
  std::vector<PartDescription> parts;
  std::vector<std::vector<PartDescription>> proposers;  // the lists of first_of
  std::vector<PipelineDescription> pipelines;
};

// Why a script does not have this global, for names of Lua's library that are withheld; "" for other names.
std::string why_absent(std::string_view name);

// Adds `plugin`, `first_of` and `pipeline`. Every other unknown global becomes a look-up of a plugin with that name. So
// a script loads only files that it names, and a misspelled name is an error with a suggestion. `parts` must outlive
// the state.
void open_constructors(lua_State* L, ScriptParts& parts);

// Throws an Error if the proposers cannot be in one first_of: none, too many (`count`), or a name twice. If there are
// too many, `proposers` may have only the first of them.
void check_alternatives(std::size_t count, std::span<const PartDescription> proposers);

// The index into parts.pipelines of the value at `index`; nullopt if the value is not a pipeline.
std::optional<std::size_t> pipeline_at(lua_State* L, int index);

}  // namespace mortise
