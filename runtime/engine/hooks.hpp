// runtime/engine/hooks.hpp: who may look on while an engine works. All pointers may be null and outlive the engine.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "engine/inbox.hpp"
#include "engine/request.hpp"
#include "kv/kv_observer.hpp"
#include "trace/trace_file.hpp"

namespace mortise {

// Sees every request of every front end, because it stands in Engine::submit, and all that becomes of it, because its
// tap stands before every reader.
class RequestWatcher {
 public:
  virtual ~RequestWatcher() = default;
  // Called for each request that passed the checks, before it is queued; its sampling.seed is the one that it runs
  // with. May ask for log probabilities that the request does not want, as long as the tap that it returns takes them
  // out of the deltas. A request that is then refused for lack of room sends no delta. [any thread]
  virtual Tap watch(Request& request) = 0;
};

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct EngineHooks {
  RequestWatcher* watcher = nullptr;
  TraceFile* trace = nullptr;
  KvObserver* kv_observer = nullptr;
  std::string name = "engine";  // in the trace
  QueueLimits queue;
  // A swap with verify_steps is refused when so long no step could be compared; tests wait less.
  std::chrono::milliseconds verify_patience = std::chrono::seconds(60);
  // Hears of each failure of a scheduler or a proposer, although the host makes it good. [engine thread]
  std::function<void(const std::string& failure)> breach = {};
  // Seconds, what steps and drafts take by it decides adaptive lengths; tests have their own. [engine thread]
  std::function<double()> clock = steady_seconds;
};

}  // namespace mortise
