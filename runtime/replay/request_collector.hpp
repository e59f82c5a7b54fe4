// runtime/replay/request_collector.hpp: collects what becomes of each request of an engine, to the bit, whichever front
// end submits it.
#pragma once

#include <functional>
#include <string>

#include "engine/hooks.hpp"
#include "replay/request_log.hpp"

namespace mortise {

// A request that wants no log probabilities gets them computed all the same; its front end does not see them. Outlives
// the engine. Thread-safe as far as `take` and `before` are.
class RequestCollector : public RequestWatcher {
 public:
  // `take` gets a request when its last choice has ended, before its front end hears of that end, on a thread that
  // delivers. `before`, if set, is called by submit() and may make it wait.
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
