#include "loader/call_watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mortise {
namespace {

constexpr double kLongestInterval = 0.25;  // seconds between two looks

double steady_seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void LongCalls::returned(const Seen& seen, double now_s) const {
  if (!seen.reported) return;
  report_(fmt::format("{}: {}: returned after {:.1f} s", seen.call.part, seen.call.function, now_s - seen.since_s));
}

void LongCalls::look(double now_s) {
  for (const CallStack* stack = CallStack::first(); stack != nullptr; stack = stack->next()) {
    const std::size_t depth = stack->depth();
    for (std::size_t i = 0; i < CallStack::kMaxDepth; ++i) {
      CallInProgress call;
      const bool runs = i < depth && stack->read(i, call);
      const auto known = seen_.find({stack, i});
      if (known != seen_.end() && (!runs || known->second.call.serial != call.serial)) {
        returned(known->second, now_s);
        seen_.erase(known);
      }
      if (!runs) continue;
      Seen& seen = seen_.try_emplace({stack, i}, Seen{call, now_s}).first->second;
      const double limit_s = call.kind == CallKind::kStep ? limits_.step_s : limits_.control_s;
      if (seen.reported || now_s - seen.since_s < limit_s) continue;
      seen.reported = true;
      report_(fmt::format("{}: {}: has been running for {:.1f} s, the limit is {:g} s; everything waits for it",
                          call.part, call.function, now_s - seen.since_s, limit_s));
    }
  }
}

CallWatchdog::CallWatchdog(const CallLimits& limits, CallReport report)
    : interval_(std::min({kLongestInterval, limits.step_s / 4, limits.control_s / 4})),
      calls_(limits, std::move(report)),
      thread_([this] { run(); }) {}

CallWatchdog::~CallWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void CallWatchdog::run() {
  std::unique_lock lock(mutex_);
  bool last = false;
  while (!last) {
    last = wake_.wait_for(lock, interval_, [&] { return stop_; });
    calls_.look(steady_seconds_now());  // also at the end, since a reported call may have returned
  }
}

}  // namespace mortise
