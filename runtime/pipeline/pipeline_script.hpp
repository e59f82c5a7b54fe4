// runtime/pipeline/pipeline_script.hpp: runs and checks a pipeline script, and calls the functions that it defines.
//
// A script returns one pipeline { ... }, or a table of named ones. The default is the one named "default", or else the
// one that the script made first. The script may define these global functions; the values of the two globals after the
// script has run decide whether they are called:
//   chat_template(messages) -> text      messages as in a chat request: { { role = ..., content = ... }, ... }
//   on_request(request)     -> nil, or { priority = integer, group = text, proposer = text,
//                                        max_draft_tokens = integer }
// The global script_dir is the absolute folder of the script.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/catalog.hpp"
#include "pipeline/description.hpp"
#include "pipeline/script_limits.hpp"

namespace mortise {

// The decisions of on_request for a request. nullopt: on_request did not set the field.
struct RequestRoute {
  std::optional<std::int32_t> priority;
  std::optional<std::string> group;
  std::optional<std::string> proposer;  // a proposer of the pipeline, or "none"
  std::optional<std::int32_t> max_drafts;
};

// A script after it has run. Movable; the descriptions move with it. A callback that does not return in time is
// abandoned (callback_thread.hpp): its caller gets an Error (kInternal), and every later caller gets one (kUnavailable)
// until it has returned. Used by one thread at a time, callbacks included. Invariant: pipelines() never changes after
// load.
class PipelineScript {
 public:
  // Runs the script. Throws an Error with file and line. Loads no model.
  static PipelineScript load(const std::filesystem::path& file, const PluginCatalog& catalog);
  // Loads the built-in scripts/demo.lua, with the demo models of share/mortise/models (if installed) or of the source
  // tree.
  static PipelineScript load_demo(const PluginCatalog& catalog);
  // Messages call the script `name`; `folder` is its script_dir.
  static PipelineScript from_text(std::string_view text, const std::string& name, const std::filesystem::path& folder,
                                  const PluginCatalog& catalog, const ScriptLimits& limits = {});

  PipelineScript(PipelineScript&&) noexcept;
  PipelineScript& operator=(PipelineScript&&) noexcept;
  ~PipelineScript();

  // Returns at least one pipeline; the first is the default.
  const std::vector<PipelineDescription>& pipelines() const;

  // Finds unknown names in the script's functions: one message for each global variable that a function reads, but
  // neither the script nor its sandbox defines, in the order of lines. Such a function would fail when it runs.
  std::vector<std::string> unknown_variables(const PluginCatalog& catalog) const;

  // Takes over the callbacks of `other`, which is the same script read again. pipelines() is unchanged.
  void replace_callbacks(PipelineScript other);

  bool has_chat_template() const;
  // Renders a chat as text; nullopt if the script defines no chat_template. Throws an Error with the script's line.
  std::optional<std::string> chat_template(const nlohmann::json& messages);
  // nullopt if the script defines no on_request. Throws an Error with the script's line.
  std::optional<RequestRoute> on_request(const nlohmann::json& request);

 private:
  struct Impl;
  explicit PipelineScript(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with a callback's thread
};

}  // namespace mortise
