#include "cli/kv_event_publishers.hpp"

#include <spdlog/spdlog.h>

#include "error.hpp"
#include "kv_events/endpoints.hpp"

namespace mortise {

KvEventPublishers::Model::Model(const std::string& named, const KvEventOptions& options, const EngineLimits& limits)
    : name(named), publisher(options, static_cast<std::size_t>(limits.num_blocks), limits.block_size) {}

KvObserver* KvEventPublishers::add(const std::string& model, const EngineLimits& limits) {
  if (options_.endpoint.empty()) return nullptr;
  KvEventOptions own = options_;
  const KvEndpoints endpoints = endpoints_of_model({options_.endpoint, options_.replay}, models_.size());
  own.endpoint = endpoints.publish;
  own.replay = endpoints.replay;
  Model& added = models_.emplace_back(model, own, limits);
  // At a file path, ZeroMQ would replace the socket of the other process, which removes the file when it ends.
  const bool is_tcp = own.endpoint.starts_with("tcp://") && (own.replay.empty() || own.replay.starts_with("tcp://"));
  const bool waits = in_use_ == PortsInUse::kWait;
  if (waits && !is_tcp) return &added.publisher.observer();
  try {
    listen(added);
  } catch (const Error& error) {
    if (!waits || error.code() != ErrorCode::kUnavailable) throw;
  }
  return &added.publisher.observer();
}

nlohmann::json KvEventPublishers::describe(std::size_t model) const {
  if (model >= models_.size()) return nullptr;
  const KvEventOptions& at = models_[model].publisher.at();
  return {{"endpoint", at.endpoint},
          {"replay", at.replay.empty() ? nlohmann::json(nullptr) : nlohmann::json(at.replay)},
          {"topic", at.topic}};
}

void KvEventPublishers::listen(Model& model) {
  model.publisher.listen();
  spdlog::info("{}: KV events at {}", model.name, model.publisher.at().endpoint);
}

void KvEventPublishers::listen() {
  for (Model& model : models_) {
    if (model.publisher.listens()) continue;
    try {
      listen(model);
    } catch (const Error& error) {
      spdlog::error("{}: no KV events are published: {}", model.name, error.what());
    }
  }
}

void KvEventPublishers::stop() {
  for (Model& model : models_) model.publisher.stop();
}

}  // namespace mortise
