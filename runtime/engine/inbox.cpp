#include "engine/inbox.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mortise {
namespace {

constexpr auto kWindow = std::chrono::seconds(2);
constexpr const char* kDrains = "the engine is shutting down: it finishes running requests and accepts no new ones";
constexpr const char* kEnds = "the engine has ended and accepts no requests";

}  // namespace

void StartRate::add(std::size_t num_started, Clock::time_point now) {
  if (before_ + running_ == 0) {
    begin_ = middle_ = now - kWindow;
  } else if (now - middle_ > 2 * kWindow) {  // after a long pause the old counts say nothing
    begin_ = middle_ = now - kWindow;
    before_ = running_ = 0;
  } else if (now - middle_ > kWindow) {
    begin_ = std::exchange(middle_, now);
    before_ = std::exchange(running_, 0);
  }
  running_ += num_started;
}

std::int32_t StartRate::seconds_until_half(std::size_t num_waiting, Clock::time_point now) const {
  const std::size_t num_started = before_ + running_;
  if (num_started == 0) return kUnknownSeconds;
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const double seconds = static_cast<double>(num_waiting) / 2 * elapsed / static_cast<double>(num_started);
  return static_cast<std::int32_t>(std::clamp(std::ceil(seconds), 1.0, static_cast<double>(kMaxSeconds)));
}

void Inbox::check_open() const {
  if (!failure_.empty()) {
    fail(ErrorCode::kUnavailable, "the engine accepts no requests because one of its parts failed: {}; restart it",
         failure_);
  }
  if (stops_) throw Error(kEnds, ErrorCode::kUnavailable);
  if (drain_ != Drain::kNone) throw Error(kDrains, ErrorCode::kUnavailable);
}

void Inbox::check_room(std::size_t num_tokens) const {
  // A single request may exceed the limit of tokens, because otherwise it could never run.
  const bool too_many_tokens = num_waiting_ > 0 && num_tokens_waiting_ + num_tokens > limits_.max_tokens;
  if (num_waiting_ < limits_.max_requests && !too_many_tokens) return;
  const std::int32_t seconds = rate_.seconds_until_half(num_waiting_, Clock::now());
  throw OverloadedError(
      fmt::format("{} requests with {} prompt tokens already wait, but at most {} with {} may; try "
                  "again in {} s",
                  num_waiting_, num_tokens_waiting_, limits_.max_requests, limits_.max_tokens, seconds),
      seconds);
}

RequestId Inbox::put(const std::shared_ptr<RequestState>& state) {
  RequestId id;
  {
    const std::lock_guard lock(mutex_);
    check_open();
    if (!state->request.follows) check_room(state->request.prompt.size());
    id = state->id = state->arrival = next_request_++;
    ++num_open_;
    ++num_waiting_;
    num_tokens_waiting_ += state->request.prompt.size();
    submitted_.push_back(state);
  }
  wake_.notify_one();
  return id;
}

void Inbox::put(std::shared_ptr<SwapOrder> order) {
  {
    const std::lock_guard lock(mutex_);
    check_open();
    swaps_.push_back(std::move(order));
  }
  wake_.notify_one();
}

void Inbox::put(std::shared_ptr<TraceOrder> order) {
  {
    const std::lock_guard lock(mutex_);
    traces_.push_back(std::move(order));
  }
  wake_.notify_one();
}

void Inbox::abort(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    aborted_.push_back(id);
  }
  wake_.notify_one();
}

EngineHealth Inbox::health() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return {EngineHealth::State::kFailed, failure_};
  if (drain_ != Drain::kNone) return {EngineHealth::State::kDraining, kDrains};
  if (stops_) return {EngineHealth::State::kDraining, kEnds};
  return {};
}

void Inbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
}

bool Inbox::drain(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (drain_ == Drain::kNone) drain_ = Drain::kWaits;
  wake_.notify_one();  // take() may wait until a time
  const auto is_empty = [&] { return num_open_ == 0; };
  if (emptied_.wait_until(lock, deadline, is_empty)) return true;
  drain_ = Drain::kIsOver;
  wake_.notify_one();
  emptied_.wait(lock, is_empty);
  return false;
}

Inbox::Arrivals Inbox::take(bool waits, std::optional<Clock::time_point> until) {
  Arrivals arrivals;
  std::unique_lock lock(mutex_);
  const auto has_something = [&] {
    return stops_ || !waits || !submitted_.empty() || !aborted_.empty() || !swaps_.empty() || !traces_.empty() ||
           (until && drain_ != Drain::kNone);
  };
  if (until) {
    wake_.wait_until(lock, *until, has_something);
  } else {
    wake_.wait(lock, has_something);
  }
  arrivals.requests.swap(submitted_);
  arrivals.aborted.swap(aborted_);
  arrivals.swaps.swap(swaps_);
  arrivals.traces.swap(traces_);
  arrivals.drain = drain_;
  arrivals.stops = stops_;
  return arrivals;
}

void Inbox::left_queue(const Progress& progress) {
  if (progress.num_left == 0) return;
  const std::lock_guard lock(mutex_);
  num_waiting_ -= progress.num_left;
  num_tokens_waiting_ -= progress.num_tokens_left;
  if (progress.num_started > 0) rate_.add(progress.num_started, Clock::now());
}

void Inbox::ended(const Progress& progress) {
  if (progress.num_ended == 0) return;
  {
    const std::lock_guard lock(mutex_);
    num_open_ -= progress.num_ended;
    if (num_open_ > 0) return;
  }
  emptied_.notify_all();
}

void Inbox::part_failed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = reason;
}

}  // namespace mortise
