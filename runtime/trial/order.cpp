#include "trial/order.hpp"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "assembly/default_script.hpp"
#include "error.hpp"
#include "loader/plugin_file.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;

Json json_of(const PartDescription& part) {
  Json choices = Json::array();
  for (const PartChoice& choice : part.choices) {
    const Component& component = *choice.component;
    choices.push_back({{"file", component.file.string()},
                       {"bytes", fmt::format("/proc/{}/fd/{}", ::getpid(), component.image)},
                       {"kind", static_cast<std::int32_t>(component.kind)},
                       {"component", component.name},
                       {"options", choice.options}});
  }
  return {{"name", part.name}, {"where", part.where}, {"choices", choices}};
}

PartDescription part_of(const Json& json) {
  PartDescription part{json.at("name"), json.at("where"), {}};
  for (const Json& choice : json.at("choices")) {
    const std::string path = choice.at("file");
    const PluginFile& file = load_plugin_file(path, choice.at("bytes").get<std::string>());
    for (const Component& component : file.components) {
      if (static_cast<std::int32_t>(component.kind) != choice.at("kind").get<std::int32_t>()) continue;
      if (component.name == choice.at("component").get_ref<const std::string&>())
        part.choices.push_back({&component, choice.at("options")});
    }
  }
  return part;
}

Json json_of(const PipelineDescription& pipeline) {
  Json proposers = Json::array(), folders = Json::array();
  for (const PartDescription& proposer : pipeline.proposers) proposers.push_back(json_of(proposer));
  for (const auto& folder : pipeline.plugin_folders) folders.push_back(folder.string());
  const KvCacheOptions& kv = pipeline.kv_cache;
  return {{"name", pipeline.name},
          {"where", pipeline.where},
          {"plugin_folders", folders},
          {"device", json_of(pipeline.device)},
          {"model", json_of(pipeline.model)},
          {"attention", json_of(pipeline.attention)},
          {"scheduler", json_of(pipeline.scheduler)},
          {"proposers", proposers},
          {"kv_cache",
           {{"memory_bytes", kv.memory_bytes},
            {"fills_device", kv.fills_device},
            {"dtype", static_cast<int>(kv.dtype)},
            {"prefix_cache", kv.prefix_cache},
            {"populate", kv.populate ? Json(*kv.populate) : Json()}}},
          {"speculation",
           {{"verify", static_cast<int>(pipeline.speculation.verify)},
            {"lengths", static_cast<int>(pipeline.speculation.lengths)},
            {"batch_expansion", pipeline.speculation.batch_expansion}}},
          {"special_tokens_in_content", pipeline.chat.special_tokens_in_content},
          {"checked", pipeline.checked}};
}

PipelineDescription pipeline_of(const Json& json) {
  PipelineDescription pipeline{};
  pipeline.name = json.at("name");
  pipeline.where = json.at("where");
  for (const Json& folder : json.at("plugin_folders")) pipeline.plugin_folders.emplace_back(folder.get<std::string>());
  pipeline.device = part_of(json.at("device"));
  pipeline.model = part_of(json.at("model"));
  pipeline.attention = part_of(json.at("attention"));
  pipeline.scheduler = part_of(json.at("scheduler"));
  for (const Json& proposer : json.at("proposers")) pipeline.proposers.push_back(part_of(proposer));
  const Json& kv = json.at("kv_cache");
  pipeline.kv_cache.memory_bytes = kv.at("memory_bytes");
  pipeline.kv_cache.fills_device = kv.at("fills_device");
  pipeline.kv_cache.dtype = static_cast<KvDtype>(kv.at("dtype").get<int>());
  pipeline.kv_cache.prefix_cache = kv.at("prefix_cache");
  if (!kv.at("populate").is_null()) pipeline.kv_cache.populate = kv.at("populate").get<bool>();
  const Json& speculation = json.at("speculation");
  pipeline.speculation.verify = static_cast<Verify>(speculation.at("verify").get<int>());
  pipeline.speculation.lengths = static_cast<DraftLengths>(speculation.at("lengths").get<int>());
  pipeline.speculation.batch_expansion = speculation.at("batch_expansion");
  pipeline.chat.special_tokens_in_content = json.at("special_tokens_in_content");
  pipeline.checked = json.at("checked");
  read_shared_options(pipeline);
  check_calls(pipeline);
  return pipeline;
}

}  // namespace

std::string TrialOrder::to_text() const {
  Json json = {{"serving", json_of(serving)}};
  if (change) json["change"] = {{"key", change->key}, {"plugin", change->plugin}, {"options", change->options}};
  if (script) {
    json["script"] = {{"names", script->names}, {"index", script->index}, {"populate_kv", script->populate_kv}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TrialOrder TrialOrder::from_text(std::string_view text) {
  const Json json = Json::parse(text);
  TrialOrder order{pipeline_of(json.at("serving")), std::nullopt, std::nullopt};
  if (const auto change = json.find("change"); change != json.end()) {
    order.change = {change->at("key"), change->at("plugin"), change->at("options")};
  }
  if (const auto script = json.find("script"); script != json.end()) {
    order.script = {script->at("names"), script->at("index"), script->at("populate_kv")};
  }
  return order;
}

std::optional<PipelineDescription> wanted_by(const TrialOrder& order) {
  const PluginCatalog catalog = PluginCatalog::standard();
  if (order.change) return with_change(order.serving, *order.change, catalog, std::filesystem::current_path());
  const PipelineScript script = load_pipelines(order.script->names, catalog);
  if (order.script->index >= script.pipelines().size()) return std::nullopt;
  PipelineDescription wanted = script.pipelines()[order.script->index];
  if (wanted.name != order.serving.name) return std::nullopt;
  if (!wanted.kv_cache.populate) wanted.kv_cache.populate = order.script->populate_kv;
  return wanted;
}

}  // namespace mortise
