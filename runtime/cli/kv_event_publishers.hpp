// runtime/cli/kv_event_publishers.hpp: publishes the KV events of the models of `mortise serve`; each model has a
// publisher.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/parts.hpp"
#include "kv_events/publisher.hpp"

namespace mortise {

// The publishers, in the order of the models. Used by one thread; publishing has threads of its own. Invariant: models_
// has an entry for each add(), in order.
class KvEventPublishers {
 public:
  // What to do if another process has the ports.
  enum class PortsInUse {
    kFail,  // add() throws an Error
    kWait,  // waits until listen(), because this process takes over from the other one
  };
  // Without an endpoint in `options` nothing is published.
  KvEventPublishers(const KvEventOptions& options, PortsInUse in_use) : options_(options), in_use_(in_use) {}

  // Returns the observer for the next model's engine; null: nothing is published. The publishers outlive the engine.
  // Throws an Error about the endpoint.
  KvObserver* add(const std::string& model, const EngineLimits& limits);
  // Returns the endpoints of a model's events for /status; null: there are none.
  nlohmann::json describe(std::size_t model) const;

  // Listens at ports that had to be waited for. If that fails, it is only logged: requests are served without events.
  void listen();
  // Ends all publishers and frees their ports.
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
