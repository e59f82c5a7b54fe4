// runtime/loader/call_watchdog.hpp: reports calls into plugins that take too long: once while they run, and once when
// they return. It ends no call, because a thread cannot be stopped safely inside a plugin.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "loader/running_calls.hpp"

namespace mortise {

// How long a call may run before it is reported. The largest steps of large models take tens of seconds on a CPU;
// loading and tuning take minutes.
struct CallLimits {
  double step_s = 60;
  double control_s = 600;
};

using CallReport = std::function<void(const std::string& text)>;

// Decides what to report. Has neither a thread nor a clock of its own. Used by one thread at a time. Invariant: each
// long call is reported at most once while it runs, and once when it returns.
class LongCalls {
 public:
  LongCalls(const CallLimits& limits, CallReport report) : limits_(limits), report_(std::move(report)) {}

  // Looks at all running calls. `now_s` must grow from call to call. The time of a plugin's call starts with the first
  // look that sees it.
  void look(double now_s);

 private:
  struct Seen {
    CallInProgress call;
    double since_s = 0;
    bool reported = false;
  };
  void returned(const Seen& seen, double now_s) const;

  const CallLimits limits_;
  const CallReport report_;
  std::map<std::pair<const CallStack*, std::size_t>, Seen> seen_;  // by thread and depth
};

// A thread that looks for long calls several times a second. Invariant: it runs from construction to destruction. A
// process has one CallWatchdog. Its functions are called by one thread.
class CallWatchdog {
 public:
  explicit CallWatchdog(const CallLimits& limits, CallReport report);
  ~CallWatchdog();
  CallWatchdog(const CallWatchdog&) = delete;
  CallWatchdog& operator=(const CallWatchdog&) = delete;

 private:
  void run();

  const std::chrono::duration<double> interval_;
  LongCalls calls_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mortise
