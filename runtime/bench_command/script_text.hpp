// runtime/bench_command/script_text.hpp: writes a pipeline's description as a script. With a script, options can be
// changed (`--set`) and a pipeline can be passed to another process, with all checks of a script.
#pragma once

#include <span>
#include <string>

#include "pipeline/description.hpp"

namespace mortise::bench {

// A setting such as "device.threads=1": an option of a part (device, model, attention, scheduler, proposer) or of
// kv_cache. The value is JSON but no object, such as `device.devices=[0,1]`, or otherwise text: `model.weights=int8`,
// `kv_cache.memory=1GiB`.
struct Setting {
  std::string part, option;
  nlohmann::json value;
};
// Parses a setting. Throws an Error that shows the form of one.
Setting parse_setting(const std::string& text);

// Returns a script that returns this pipeline with these settings. Options with their default values are left out.
// Throws an Error for a setting of a part that the pipeline does not have.
std::string script_text(const PipelineDescription& pipeline, std::span<const Setting> settings,
                        const PluginCatalog& catalog);

}  // namespace mortise::bench
