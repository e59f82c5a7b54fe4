// runtime/cli/served_models.hpp: a session's pipelines as the models that `mortise serve` answers with, and swaps of
// them.
#pragma once

#include <cstddef>
#include <mutex>

#include "cli/kv_event_publishers.hpp"
#include "cli/session.hpp"
#include "server/models.hpp"

namespace mortise {

// Parts as people are told of them.
std::vector<ServedPart> served_parts(const std::vector<const Component*>& components);

class ServedModels {
 public:
  // Opens all pipelines. Session and publishers outlive it. `max_waiting`: as ServedModel's. Throws an Error.
  ServedModels(Session& session, const KvEventPublishers& kv_events, std::size_t max_waiting);

  const Models& models() const { return models_; }
  // Null when another model has its place.
  ServedModelRef find(const OpenPipeline& pipeline) const;
  // Has `pipeline` run `next`. With another model a second pipeline is opened beside it, which gets the requests from
  // then on, and the first one ends when all that it has are answered. Throws an Error when it is
  // refused; then nothing has changed. [any thread that may wait]
  ServedSwap swap(OpenPipeline& pipeline, const PipelineDescription& next, const SwapOptions& options);

 private:
  std::vector<ServedModelRef> open_all();
  ServedModelRef serve(OpenPipeline& pipeline, nlohmann::json kv_events);

  Session& session_;
  const KvEventPublishers& kv_events_;
  const std::size_t max_waiting_;
  std::mutex replacing_;  // one pipeline at a time gets another one in its place
  Models models_;
};

}  // namespace mortise
