// runtime/engine/inbox.hpp: the door of an engine: what front ends hand in until the engine's thread takes it, and
// whether it takes anything. It counts the requests that wait for their first step and refuses more than its limits.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "delivery/delta.hpp"
#include "engine/sequence.hpp"
#include "engine/swap.hpp"
#include "error.hpp"
#include "trace/trace_file.hpp"

namespace mortise {

// Of the requests that wait for their first step, at most; a body is accepted with all of its prompts or not at all, so
// one may lie above this. A waiting request takes a few KiB, and its prompt's tokens
// twice four bytes for each choice.
struct QueueLimits {
  std::size_t max_requests = 16384;
  std::size_t max_tokens = std::size_t{16} << 20;  // of their prompts

  // For a front end that bounds its own requests, and for which a refused request would be a lost one.
  static QueueLimits unbounded() { return {SIZE_MAX, SIZE_MAX}; }
};

// More waits than QueueLimits allow. The same request may be accepted later.
class OverloadedError : public Error {
 public:
  OverloadedError(const std::string& text, std::int32_t retry_after_s)
      : Error(text, ErrorCode::kOverloaded), retry_after_s_(retry_after_s) {}
  std::int32_t retry_after_s() const { return retry_after_s_; }  // seconds, at least 1

 private:
  std::int32_t retry_after_s_;
};

struct EngineHealth {
  enum class State {
    kOk,
    kDraining,  // accepts nothing, finishes what runs
    kFailed,    // a part that it needs has failed: it accepts nothing and runs nothing
  };
  State state = State::kOk;
  std::string reason;  // why it accepts nothing
};

// How many requests are started in a second, reckoned over the last windows of some seconds.
class StartRate {
 public:
  using Clock = std::chrono::steady_clock;
  void add(std::size_t num_started, Clock::time_point now);
  // Seconds until half of `num_waiting` requests will have started: a front end that comes back then finds room, and
  // so do others that were refused with it. From 1 to kMostSeconds; kUnknownSeconds before anything has started.
  std::int32_t seconds_until_half(std::size_t num_waiting, Clock::time_point now) const;

  static constexpr std::int32_t kMostSeconds = 60, kUnknownSeconds = 5;

 private:
  Clock::time_point begin_{}, middle_{};  // of the window before, of the one that runs
  std::size_t before_ = 0, running_ = 0;  // started in them
};

// Another file for the trace of an engine's steps, on its way to the engine's thread; null: none.
struct TraceOrder {
  TraceFile* file = nullptr;
  std::promise<void> done;
};

class Inbox {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Inbox(const QueueLimits& limits) : limits_(limits) {}

  // Queues the request and gives it its id. Throws an OverloadedError when too much waits, an Error with kUnavailable
  // when the engine drains, has failed or ends. [any thread]
  RequestId put(const std::shared_ptr<RequestState>& state);
  // Queues a swap, which the engine's thread carries out behind the requests that came before it. Throws an Error with
  // kUnavailable when the engine drains, has failed or ends. [any thread]
  void put(std::shared_ptr<SwapOrder> order);
  // Also of an engine that drains or has failed. [any thread, before stop()]
  void put(std::shared_ptr<TraceOrder> order);
  void abort(RequestId id);     // [any thread]
  EngineHealth health() const;  // [any thread]
  void stop();                  // take() returns at once, with `stops`. [any thread]
  // Accepts nothing from now on and waits until all requests have ended. At the deadline it has the engine end those
  // that are left, and returns false. [any thread but the engine's and the pool's]
  bool drain(Clock::time_point deadline);

  struct Arrivals {
    std::vector<std::shared_ptr<RequestState>> requests;
    std::vector<RequestId> aborted;
    std::vector<std::shared_ptr<SwapOrder>> swaps;
    std::vector<std::shared_ptr<TraceOrder>> traces;
    bool drains = false;         // nothing is accepted any more
    bool drain_is_over = false;  // its deadline has passed: whatever runs is to be ended
    bool stops = false;
  };
  // What has come. With `waits` it returns when something has; with `until` at that time at the latest, and when the
  // engine begins to drain. [engine thread]
  Arrivals take(bool waits, std::optional<Clock::time_point> until = std::nullopt);

  // What has changed in a step.
  struct Progress {
    std::size_t num_left = 0, num_tokens_left = 0;  // requests that wait no longer, and their prompts' tokens
    std::size_t num_started = 0;                    // of them, those that run now
    std::size_t num_ended = 0;                      // requests, however they ended
  };
  void left_queue(const Progress& progress);  // [engine thread]
  void ended(const Progress& progress);       // [engine thread]
  // A required part has failed: nothing is accepted any more. The first reason stays. [engine thread]
  void part_failed(const std::string& reason);

 private:
  void check_open() const;  // throws; the lock is held
  void check_room(std::size_t num_tokens) const;

  const QueueLimits limits_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, emptied_;
  std::vector<std::shared_ptr<RequestState>> submitted_;
  std::vector<RequestId> aborted_;
  std::vector<std::shared_ptr<SwapOrder>> swaps_;
  std::vector<std::shared_ptr<TraceOrder>> traces_;
  RequestId next_request_ = 1;
  std::size_t num_open_ = 0;  // accepted and not ended
  std::size_t num_waiting_ = 0, num_tokens_waiting_ = 0;
  StartRate rate_;
  bool draining_ = false, drain_is_over_ = false, stops_ = false;
  std::string failure_;  // empty: none
};

}  // namespace mortise
