// runtime/pipeline/pipeline_script.hpp: a pipeline script, run and checked, with the functions that it defined.
//
// A script returns one pipeline { ... }, or a table of named ones. The default is the one named "default", or else the
// one that the script made first. It may define the global functions
//   chat_template(messages) -> text      messages as in a chat request: { { role = ..., content = ... }, ... }
//   on_request(request)     -> nil, or { priority = integer, group = text, proposer = text, max_draft_tokens = integer
//   }
// and has the global script_dir, the absolute folder of the script. What these two are when the script has run decides
// whether they are called.
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

// What on_request decided about a request; what it left out is nullopt.
struct RequestRoute {
  std::optional<std::int32_t> priority;
  std::optional<std::string> group;
  std::optional<std::string> proposer;  // one of the pipeline's, or "none"
  std::optional<std::int32_t> max_draft_tokens;
};

// Used by one thread at a time, callbacks included. Movable; descriptions move with it. A callback that does not return
// in time is abandoned (callback_thread.hpp): its caller gets an Error (kInternal), and so does every later one
// (kUnavailable) until it has returned.
class PipelineScript {
 public:
  // Runs the script. Throws an Error with file and line. Nothing of a model is loaded.
  static PipelineScript load(const std::filesystem::path& file, const PluginCatalog& catalog);
  // The embedded scripts/demo.lua, with the demo models of share/mortise/models (installed) or of the source tree.
  static PipelineScript load_demo(const PluginCatalog& catalog);
  // `name` stands for the script in messages; `folder` is its script_dir.
  static PipelineScript from_text(std::string_view text, const std::string& name, const std::filesystem::path& folder,
                                  const PluginCatalog& catalog, const ScriptLimits& limits = {});

  PipelineScript(PipelineScript&&) noexcept;
  PipelineScript& operator=(PipelineScript&&) noexcept;
  ~PipelineScript();

  // At least one; the default is the first.
  const std::vector<PipelineDescription>& pipelines() const;

  // What is wrong with the names in the script's functions: one message for each global variable that a function reads
  // and neither the script nor its sandbox defines, in the order of their lines. Such a function fails when it runs.
  std::vector<std::string> unknown_variables(const PluginCatalog& catalog) const;

  // Takes the callbacks of `other`, the same script read again; pipelines() stays.
  void replace_callbacks(PipelineScript other);

  bool has_chat_template() const;
  // The text of a chat, or nullopt when the script defines no chat_template. Throws an Error with the script's line.
  std::optional<std::string> chat_template(const nlohmann::json& messages);
  // nullopt when the script defines no on_request. Throws an Error with the script's line.
  std::optional<RequestRoute> on_request(const nlohmann::json& request);

 private:
  struct Impl;
  explicit PipelineScript(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with a callback's thread
};

}  // namespace mortise
