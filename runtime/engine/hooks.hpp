// runtime/engine/hooks.hpp: observers of a running engine, and its settings for them. All pointers may be null and
// outlive the engine.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "engine/inbox.hpp"
#include "engine/request.hpp"
#include "execution/execution.hpp"
#include "kv/kv_observer.hpp"
#include "trace/trace_file.hpp"

namespace mortise {

// Sees every request of every front end, because Engine::submit calls it, and every result, because its tap runs before
// every reader. Invariant: it sees a request before its result. Called by several threads at once.
class RequestWatcher {
 public:
  virtual ~RequestWatcher() = default;
  // Called for each request that passed the checks, before it is queued. Its sampling.seed is the seed that it runs
  // with. The watcher may turn on log probabilities that the request does not want if its tap takes them out of the
  // deltas. A request that is refused afterwards because the queue is full sends no delta. [any thread]
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
  WarmUp warm_up = WarmUp::kAtOnce;  // kWhenIdle: while no request runs or waits
  // A swap with verify_steps is refused if no step could be compared for this long; tests wait less.
  std::chrono::milliseconds verify_patience = std::chrono::seconds(60);
  // Called for each failure of a scheduler or a proposer, even though the host makes up for it. [engine's thread]
  std::function<void(const std::string& failure)> breach = {};
  // The clock in seconds that times steps and drafts for adaptive lengths; tests have their own. [engine's thread]
  std::function<double()> clock = steady_seconds;
};

}  // namespace mortise
