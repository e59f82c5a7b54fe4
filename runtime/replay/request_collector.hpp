// runtime/replay/request_collector.hpp: collects the exact results of each request of an engine, whichever front end
// submits it.
#pragma once

#include <functional>
#include <string>

#include "engine/hooks.hpp"
#include "replay/request_log.hpp"

namespace mortise {

// Computes log probabilities even for requests that do not ask for them; their front ends do not see them. Outlives the
// engine. Thread-safe if `take` and `before` are. Invariant: each request is taken once, complete.
class RequestCollector : public RequestWatcher {
 public:
  // `take` gets a request when its last choice has ended, on a delivery thread, before its front end learns of the end.
  // submit() calls `before`, if it is set, which may wait.
  RequestCollector(std::string pipeline, std::function<void(RecordedRequest)> take, std::function<void()> before = {});

  Tap watch(Request& request) override;

 private:
  struct Record;
  void take(Record& record, const Delta& delta);

  const std::string pipeline_;
  const std::function<void(RecordedRequest)> take_;
  const std::function<void()> before_;
};

}  // namespace mortise
