// runtime/trial/order.hpp: the order of a trial, in a form that can be passed to another process.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/description.hpp"
#include "pipeline/part_change.hpp"

namespace mortise {

// A script that was read again. The other process reads it as well, because Lua functions cannot be passed on.
struct ScriptChange {
  std::vector<std::string> names;  // arguments of load_pipelines
  std::size_t index = 0;           // index of the pipeline
  bool populate_kv = false;        // SessionOptions::populate_kv
};

// The task of a trial process: the serving parts, and the change to try. A value.
struct TrialOrder {
  PipelineDescription serving;
  // Exactly one is set. Neither has been checked, because checking a plugin file runs its code.
  std::optional<PartChange> change;
  std::optional<ScriptChange> script;

  // Names the serving parts by file descriptors of this process, because their images may be in no file any more.
  std::string to_text() const;
  // For a child of that process. Throws an Error if the serving parts cannot be opened.
  static TrialOrder from_text(std::string_view text);
};

// The description that the order asks for. Opens plugin files. Throws an Error that names the wrong part, file or
// option. nullopt: the script does not have the pipeline any more, which its reader must refuse.
std::optional<PipelineDescription> wanted_by(const TrialOrder& order);

}  // namespace mortise
