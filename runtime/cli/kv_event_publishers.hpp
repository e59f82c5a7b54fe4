// runtime/cli/kv_event_publishers.hpp: the KV events of the models that `mortise serve` has, a publisher each.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/parts.hpp"
#include "kv_events/publisher.hpp"

namespace mortise {

class KvEventPublishers {
 public:
  // What happens where another process has the ports.
  enum class PortsInUse {
    kFail,  // add() throws
    kWait,  // until listen(): the other process is the one that this one takes over from
  };
  // Without an endpoint in `options` none are published.
  KvEventPublishers(const KvEventOptions& options, PortsInUse in_use) : options_(options), in_use_(in_use) {}

  // The observer of the next model's engine, which the publishers outlive. Null: none are published. Throws an Error:
  // of the endpoint.
  KvObserver* add(const std::string& model, const EngineLimits& limits);
  // For /status: where the model's events are; null: nowhere.
  nlohmann::json describe(std::size_t model) const;

  // Listens where ports had to be waited for. What still cannot be listened at is logged: requests are served without.
  void listen();
  // Ends all of them, and lets go of their ports.
  void stop();

 private:
  struct Model {
    Model(const std::string& named, const KvEventOptions& options, const EngineLimits& limits);
    std::string name;
    KvEventPublisher publisher;
  };
  static void listen(Model& model);

  const KvEventOptions options_;
  const PortsInUse in_use_;
  std::deque<Model> models_;
};

}  // namespace mortise
