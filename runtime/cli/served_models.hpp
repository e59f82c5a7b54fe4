// runtime/cli/served_models.hpp: the pipelines of a session as the models of `mortise serve`, and swaps of their parts.
#pragma once

#include <cstddef>
#include <mutex>

#include "cli/kv_event_publishers.hpp"
#include "cli/session.hpp"
#include "server/models.hpp"

namespace mortise {

// Returns descriptions of parts, for display.
std::vector<ServedPart> served_parts(const std::vector<const Component*>& components);

// Keeps the list of served models equal to the session's pipelines when a swap replaces one. Thread-safe as the
// functions say. Invariant: a pipeline is replaced by one caller at a time.
class ServedModels {
 public:
  // Opens all pipelines. Session and publishers outlive this object. `max_waiting` is that of ServedModel. Throws an
  // Error.
  ServedModels(Session& session, const KvEventPublishers& kv_events, std::size_t max_waiting);

  const Models& models() const { return models_; }
  // Returns the model of the pipeline; null if another model has replaced it.
  ServedModelRef find(const OpenPipeline& pipeline) const;
  // Makes `pipeline` run `next`. If `next` has another model, opens a second pipeline, which gets all further requests;
  // the first one ends when its requests are answered. Throws an Error if the swap is refused, without changing
  // anything. [any thread that may wait]
  ServedSwap swap(OpenPipeline& pipeline, const PipelineDescription& next, const SwapOptions& options);

 private:
  std::vector<ServedModelRef> open_all();
  ServedModelRef serve(OpenPipeline& pipeline, nlohmann::json kv_events);

  Session& session_;
  const KvEventPublishers& kv_events_;
  const std::size_t max_waiting_;
  std::mutex replacing_;  // held while a pipeline is replaced
  Models models_;
};

}  // namespace mortise
