// runtime/abi_record/call_replay.hpp: makes the calls of a record on a build of the plugin, without the engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>

#include "loader/plugin_file.hpp"

namespace mortise {

// The first call whose outputs differ.
struct CallDifference {
  std::int64_t call;  // its number in the record, from 1 on
  std::string function;
  std::string text;  // "plan: /seqs/0 is 1, was 0"
};

struct CallReplay {
  std::int64_t num_calls = 0;  // calls that were made
  bool ends_in_call = false;   // the recorded program ended in the last call
  std::optional<CallDifference> difference;
};

// Makes the calls of `record` on the component of the same kind and name in the plugin file, until the outputs of one
// differ. Inputs are read-only and end at guard pages. Throws an Error "RECORD:LINE: what is wrong" if the record is
// damaged, and an Error if the plugin has no such component.
CallReplay replay_calls(const std::filesystem::path& record, const std::filesystem::path& plugin);
// The same with an open record, which messages call `name`, and a plugin file that is loaded.
CallReplay replay_calls(std::istream& record, const std::string& name, const PluginFile& plugin);

}  // namespace mortise
