// runtime/engine/hooks.hpp: who may look on while an engine works. All pointers may be null and outlive the engine.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "engine/request.hpp"
#include "trace/trace_file.hpp"

namespace mortise {

// Sees every request of every front end, because it stands in Engine::submit.
class RequestWatcher {
 public:
  virtual ~RequestWatcher() = default;
  // Called for each request that passed the checks, before it is queued; its sampling.seed is the one that it runs
  // with. May ask for log probabilities that the request does not want, as long as the sink that it returns keeps them
  // from `sink`. The result is a Sink as any: it must not block and must not throw. [any thread]
  virtual Sink watch(Request& request, Sink sink) = 0;
};

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct EngineHooks {
  RequestWatcher* watcher = nullptr;
  TraceFile* trace = nullptr;
  std::string name = "engine";  // in the trace
  // Seconds, what steps and drafts take by it decides adaptive lengths; tests have their own. [engine thread]
  std::function<double()> clock = steady_seconds;
};

}  // namespace mortise
