// runtime/engine/inbox.hpp: holds what front ends submit until the engine's thread takes it: requests, aborts, swaps,
// traces. It counts the requests that wait for their first step, refuses requests beyond its limits, and refuses all
// when the engine drains or has failed. Thread-safe.
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

// Limits on the requests that wait for their first step. A body with several prompts is accepted as a whole, so it may
// exceed them. A waiting request takes a few KiB, and eight bytes for each prompt token and choice. A value.
struct QueueLimits {
  std::size_t max_requests = 16384;
  std::size_t max_tokens = std::size_t{16} << 20;  // of all their prompts

  // For a front end that limits its requests itself and would lose a refused request.
  static QueueLimits unbounded() { return {SIZE_MAX, SIZE_MAX}; }
};

// Thrown when more requests wait than QueueLimits allow. The same request may be accepted later. A value: each thread
// has its own.
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
    kFailed,    // a required part has failed: it accepts nothing and runs nothing
  };
  State state = State::kOk;
  std::string reason;  // why it accepts nothing
};

// Requests started per second, measured over two windows of a few seconds. Not thread-safe: the inbox locks. Invariant:
// the current window began at most one window before the latest add().
class StartRate {
 public:
  using Clock = std::chrono::steady_clock;
  void add(std::size_t num_started, Clock::time_point now);
  // Estimates the seconds until half of `num_waiting` requests have started, so that a client that tries again then
  // finds room, and so do others that were refused with it. From 1 to kMaxSeconds; kUnknownSeconds before anything has
  // started.
  std::int32_t seconds_until_half(std::size_t num_waiting, Clock::time_point now) const;

  static constexpr std::int32_t kMaxSeconds = 60, kUnknownSeconds = 5;

 private:
  Clock::time_point begin_{}, middle_{};  // of the previous and the current window
  std::size_t before_ = 0, running_ = 0;  // requests started in each window
};

// Orders the engine's thread to write the trace to this file, or to none if null.
struct TraceOrder {
  TraceFile* file = nullptr;
  std::promise<void> done;
};

// The queue between front ends and the engine's thread. Invariant: num_waiting_ and num_open_ count the accepted
// requests that have not started and not ended, up to the last report of the engine's thread. Thread-safe; each
// function states its callers.
class Inbox {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Inbox(const QueueLimits& limits) : limits_(limits) {}

  // Queues the request and gives it its id. Throws an OverloadedError when too many requests wait, and an Error with
  // kUnavailable when the engine drains, has failed or ends. [any thread]
  RequestId put(const std::shared_ptr<RequestState>& state);
  // Queues a swap. The engine's thread carries it out after the requests that came before it. Throws an Error with
  // kUnavailable when the engine drains, has failed or ends. [any thread]
  void put(std::shared_ptr<SwapOrder> order);
  // Accepted even if the engine drains or has failed. [any thread, before stop()]
  void put(std::shared_ptr<TraceOrder> order);
  void abort(RequestId id);     // [any thread]
  EngineHealth health() const;  // [any thread]
  void stop();                  // take() returns at once, with `stops`. [any thread]
  // Accepts no more requests and waits until all have ended. At the deadline it tells the engine to end the remaining
  // requests, waits for that, and returns false. [any thread but the engine's and the pool's]
  bool drain(Clock::time_point deadline);

  enum class Drain {
    kNone,
    kWaits,   // accepts no more requests, and waits for the others
    kIsOver,  // the deadline has passed: all requests end
  };
  struct Arrivals {
    std::vector<std::shared_ptr<RequestState>> requests;
    std::vector<RequestId> aborted;
    std::vector<std::shared_ptr<SwapOrder>> swaps;
    std::vector<std::shared_ptr<TraceOrder>> traces;
    Drain drain = Drain::kNone;
    bool stops = false;
  };
  // Takes everything that has arrived. With `waits` it blocks until something has arrived. With `until` it blocks no
  // longer than that, and returns when the engine begins to drain. [engine's thread]
  Arrivals take(bool waits, std::optional<Clock::time_point> until = std::nullopt);

  // How the numbers of waiting and open requests change in a step.
  struct Progress {
    std::size_t num_left = 0, num_tokens_left = 0;  // requests that no longer wait, and their prompts' tokens
    std::size_t num_started = 0;                    // of these, the requests that run now
    std::size_t num_ended = 0;                      // requests, however they ended
  };
  void left_queue(const Progress& progress);  // [engine's thread]
  void ended(const Progress& progress);       // [engine's thread]
  // A required part has failed: accepts no more requests. Keeps the first reason. [engine's thread]
  void part_failed(const std::string& reason);

 private:
  void check_open() const;  // throws; the lock is held
  void check_room(std::size_t num_tokens) const;

  const QueueLimits limits_;

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable wake_, emptied_;
  std::vector<std::shared_ptr<RequestState>> submitted_;
  std::vector<RequestId> aborted_;
  std::vector<std::shared_ptr<SwapOrder>> swaps_;
  std::vector<std::shared_ptr<TraceOrder>> traces_;
  RequestId next_request_ = 1;
  std::size_t num_open_ = 0;  // accepted and not ended
  std::size_t num_waiting_ = 0, num_tokens_waiting_ = 0;
  StartRate rate_;
  Drain drain_ = Drain::kNone;
  bool stops_ = false;
  std::string failure_;  // empty: none
};

}  // namespace mortise
