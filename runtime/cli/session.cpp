#include "cli/session.hpp"

#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

PipelineScript load_script(const std::string& script) {
  const PluginCatalog catalog = PluginCatalog::standard();
  return script.empty() ? PipelineScript::load_demo(catalog) : PipelineScript::load(script, catalog);
}

ServiceInfo service_info(const Assembly& assembly) {
  ServiceInfo info;
  info.model = assembly.checkpoint().folder().filename().string();
  info.system_fingerprint = assembly.system_fingerprint();
  info.defaults = assembly.default_sampling();
  info.max_model_len = assembly.limits().max_model_len;
  return info;
}

}  // namespace

OpenPipeline::OpenPipeline(const PipelineDescription& described, Session& session)
    : description(described),
      assembly(description),
      engine(assembly.parts(), assembly.limits(), assembly.model_info(), assembly.tokenizer()),
      service(engine, assembly.tokenizer(), [&] {
        ServiceInfo info = service_info(assembly);
        info.chat_template = [&session](const nlohmann::json& messages) { return session.render_chat(messages); };
        return info;
      }()) {}

Session::Session(const std::string& script) : script_(load_script(script)) {}

OpenPipeline& Session::open(std::size_t index) {
  std::unique_ptr<OpenPipeline>& slot = open_[index];
  if (!slot) slot = std::make_unique<OpenPipeline>(script_.pipelines()[index], *this);
  return *slot;
}

OpenPipeline& Session::replace_proposer(std::optional<PartDescription> proposer) {
  PipelineDescription changed = pipeline().description;
  changed.proposer = std::move(proposer);
  auto opened = std::make_unique<OpenPipeline>(changed, *this);
  open_[0] = std::move(opened);
  return *open_[0];
}

OpenPipeline& Session::pipeline_for(const nlohmann::json& body) {
  const auto& pipelines = script_.pipelines();
  if (pipelines.size() == 1 || !body.is_object() || !body.contains("model")) return open(0);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    if (body.at("model") == pipelines[i].name) return open(i);
    names.push_back(pipelines[i].name);
  }
  fail("model {} is not one of the script's pipelines: {}", body.at("model").dump(), fmt::join(names, ", "));
}

void Session::route(nlohmann::json& body) {
  if (!body.is_object()) return;
  const std::optional<RequestRoute> route = script_.on_request(body);
  if (!route) return;
  if (route->priority && !body.contains("priority")) body["priority"] = *route->priority;
  if (route->group && !body.contains("group")) body["group"] = *route->group;
}

std::string Session::render_chat(const nlohmann::json& messages) {
  const std::optional<std::string> text = script_.chat_template(messages);
  if (!text) fail("the pipeline script has no function chat_template(messages); define one to chat");
  return *text;
}

}  // namespace mortise
