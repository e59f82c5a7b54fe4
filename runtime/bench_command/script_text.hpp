// runtime/bench_command/script_text.hpp: a pipeline's description as a script again. So options are changed (`--set`),
// and a pipeline is given to another process, in the one language that pipelines are checked in.
#pragma once

#include <span>
#include <string>

#include "pipeline/description.hpp"

namespace mortise::bench {

// "device.threads=1": an option of a part (device, model, attention, scheduler, proposer) or of kv_cache. The value is
// JSON, or else a text: `model.weights=int8`, `kv_cache.memory=1GiB`.
struct Setting {
  std::string part, option;
  nlohmann::json value;
};
// Throws an Error that says what a setting looks like.
Setting parse_setting(const std::string& text);

// A script that returns this pipeline with these settings. Options that have their default are left to the plugin.
// Throws an Error for a setting of a part that the pipeline does not have.
std::string script_text(const PipelineDescription& pipeline, std::span<const Setting> settings,
                        const PluginCatalog& catalog);

}  // namespace mortise::bench
