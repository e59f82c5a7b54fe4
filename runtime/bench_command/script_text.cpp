#include "bench_command/script_text.hpp"

#include <algorithm>
#include <iterator>

#include "error.hpp"
#include "pipeline/lua_text.hpp"

namespace mortise::bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kParts[] = {"device", "model", "attention", "scheduler", "proposer", "kv_cache"};

Json changed_options(const Component& component, const Json& options) {
  Json changed = Json::object();
  for (const Option& option : component.schema.options()) {
    const auto value = options.find(option.name);
    if (value == options.end()) continue;
    if (option.required || *value != option.default_value) changed[option.name] = *value;
  }
  return changed;
}

// Returns the constructor of a part in a script: its name, or its file if the name does not find it.
std::string constructor_of(const PartDescription& part, const PluginCatalog& catalog) {
  const Component* component = part.choices.front().component;
  const auto found = catalog.find(part.name).components;
  if (std::find(found.begin(), found.end(), component) != found.end()) return part.name;
  return fmt::format("plugin({})", lua_quoted(component->file.string()));
}

Json kv_cache_table(const KvCacheOptions& options) {
  constexpr const char* kTypes[] = {"auto", "bf16", "f32", "int8", "fp8"};  // in KvDtype's order
  return {{"memory", options.fills_device ? Json("auto") : Json(options.memory_bytes)},
          {"dtype", kTypes[static_cast<int>(options.dtype)]},
          {"prefix_cache", options.prefix_cache},
          {"populate", options.populate ? Json(*options.populate) : Json(nullptr)}};
}

Json speculation_json(const SpeculationOptions& options) {
  return {{"verify", options.verify == Verify::kCoupled ? "coupled" : "rejection"},
          {"lengths", options.lengths == DraftLengths::kAdaptive ? "adaptive" : "fixed"},
          {"batch_expansion", options.batch_expansion}};
}

void apply(std::span<const Setting> settings, std::string_view part, Json& options) {
  for (const Setting& setting : settings) {
    if (setting.part == part) options[setting.option] = setting.value;
  }
}

}  // namespace

Setting parse_setting(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == text.npos || dot > equals || dot == 0 || dot + 1 == equals) {
    fail("{}: not a setting; write PART.OPTION=VALUE, such as device.threads=1 or kv_cache.memory=1GiB", text);
  }
  Setting setting{text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), nullptr};
  if (std::find(std::begin(kParts), std::end(kParts), setting.part) == std::end(kParts)) {
    fail("{}: there is no part {}; a setting belongs to device, model, attention, scheduler, proposer or kv_cache",
         text, setting.part);
  }
  const std::string value = text.substr(equals + 1);
  setting.value = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (setting.value.is_discarded() || setting.value.is_object()) setting.value = value;
  return setting;
}

std::string script_text(const PipelineDescription& pipeline, std::span<const Setting> settings,
                        const PluginCatalog& catalog) {
  std::string out = "return pipeline {\n";
  const auto constructed = [&](const char* key, const PartDescription& part) {
    Json options = changed_options(*part.choices.front().component, part.choices.front().options);
    apply(settings, key, options);
    return fmt::format("{} {}", constructor_of(part, catalog), lua_value(options));
  };
  const auto add_part = [&](const char* key, const PartDescription& part) {
    out += fmt::format("  {} = {},\n", key, constructed(key, part));
  };
  add_part("device", pipeline.device);
  add_part("model", pipeline.model);
  add_part("attention", pipeline.attention);
  add_part("scheduler", pipeline.scheduler);
  for (const Setting& setting : settings) {
    if (setting.part != "proposer" || pipeline.proposers.size() == 1) continue;
    fail("proposer.{}: the pipeline has {}; use a script that has one", setting.option,
         pipeline.proposers.empty() ? "no proposer" : "several proposers");
  }
  if (pipeline.proposers.size() == 1) add_part("proposer", pipeline.proposers.front());
  if (pipeline.proposers.size() > 1) {
    out += "  proposer = first_of { ";
    for (const PartDescription& proposer : pipeline.proposers) out += constructed("proposer", proposer) + ", ";
    out += "},\n";
  }
  Json kv_cache = kv_cache_table(pipeline.kv_cache);
  apply(settings, "kv_cache", kv_cache);
  out += fmt::format("  kv_cache = {},\n", lua_value(kv_cache));
  out += fmt::format("  speculation = {},\n", lua_value(speculation_json(pipeline.speculation)));
  return out + "}\n";
}

}  // namespace mortise::bench
