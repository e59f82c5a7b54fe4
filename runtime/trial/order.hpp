// runtime/trial/order.hpp: what is to be tried, as one process tells it to another.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/description.hpp"
#include "pipeline/part_change.hpp"

namespace mortise {

// A pipeline script that was read again. The other process reads it, too: Lua functions cannot be handed over.
struct ScriptChange {
  std::vector<std::string> names;  // as load_pipelines takes them
  std::size_t index = 0;           // of the pipeline
  bool populate_kv = false;        // SessionOptions::populate_kv
};

struct TrialOrder {
  PipelineDescription serving;
  // One of the two. Neither has been looked at: to open a plugin file is to run its code.
  std::optional<PartChange> change;
  std::optional<ScriptChange> script;

  // The parts that serve are named by descriptors of this process, whose images may be in no file any more.
  std::string to_text() const;
  // In a child of that process. Throws an Error when the parts that serve cannot be opened.
  static TrialOrder from_text(std::string_view text);
};

// What the order asks for. Opens plugin files. Throws an Error that names part, file or option at fault; nullopt: the
// script has no such pipeline any more, which is for its reader to refuse.
std::optional<PipelineDescription> wanted_by(const TrialOrder& order);

}  // namespace mortise
