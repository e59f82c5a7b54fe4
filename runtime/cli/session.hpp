// runtime/cli/session.hpp: a script's pipelines, opened and running, as run, batch and score use them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/assembly.hpp"
#include "engine/engine.hpp"
#include "openai/service.hpp"
#include "pipeline/pipeline_script.hpp"

namespace mortise {

class Session;

// A pipeline whose parts are loaded and whose engine runs.
struct OpenPipeline {
  OpenPipeline(const PipelineDescription& described, Session& session);

  const PipelineDescription description;
  Assembly assembly;
  Engine engine;
  Service service;
};

class Session {
 public:
  // `script` empty: the embedded demo. Nothing is loaded yet. Throws an Error with file and line.
  explicit Session(const std::string& script);

  // The default pipeline, opened by the first call.
  OpenPipeline& pipeline() { return open(0); }
  // Opens the default pipeline anew with another proposer, or with none, beside the one that runs; it takes that one's
  // place when it is open. Throws an Error when it cannot be opened: then nothing has changed.
  OpenPipeline& replace_proposer(std::optional<PartDescription> proposer);
  // The pipeline that a body's `model` names. With one pipeline, or without the field, it is the default: clients send
  // names that mean nothing here. Throws an Error that lists the names.
  OpenPipeline& pipeline_for(const nlohmann::json& body);
  // What the script's on_request decides, written into the body where it does not say so itself.
  void route(nlohmann::json& body);

 private:
  friend struct OpenPipeline;
  OpenPipeline& open(std::size_t index);
  std::string render_chat(const nlohmann::json& messages);

  PipelineScript script_;
  std::map<std::size_t, std::unique_ptr<OpenPipeline>> open_;
};

}  // namespace mortise
