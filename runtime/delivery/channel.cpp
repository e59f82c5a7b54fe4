#include "delivery/channel.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace mortise {
namespace {

constexpr std::size_t kMaxSpare = 16;  // tokens; what a slow reader has merged is no step's

// A number and not a pointer, because the memory need not exist any more, or not yet.
void prefetch_to_write(std::uintptr_t memory, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(memory + at), /*rw=*/1);
  }
}

// The text of the current exception.
std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

Channel::Channel(std::int32_t num_choices) {
  if (num_choices > 1) place_.assign(static_cast<std::size_t>(num_choices), -1);
}

void Channel::prefetch() const {
  prefetch_to_write(reinterpret_cast<std::uintptr_t>(this), sizeof(Channel));
}

void Channel::prefetch_room() const {
  prefetch_to_write(reinterpret_cast<std::uintptr_t>(room_.load(std::memory_order_relaxed)), sizeof(Delta));
}

bool Channel::append(Delta&& delta) {
  const auto choice = static_cast<std::size_t>(delta.choice);
  const std::lock_guard lock(mutex_);
  const std::int32_t place = place_.empty() ? (pending_.empty() ? -1 : 0) : place_[choice];
  if (place < 0) {
    if (!place_.empty()) place_[choice] = static_cast<std::int32_t>(pending_.size());
    pending_.push_back(std::move(delta));
    delta.tokens = std::move(spare_);
  } else {
    pending_[static_cast<std::size_t>(place)].append(std::move(delta));
    delta.tokens.clear();
  }
  return !std::exchange(awake_, true);
}

void Channel::take(std::vector<Delta>& deltas) {
  std::vector<TokenInfo> spare;
  if (!deltas.empty() && deltas.front().tokens.capacity() <= kMaxSpare) spare = std::move(deltas.front().tokens);
  spare.clear();
  deltas.clear();
  const std::lock_guard lock(mutex_);
  if (spare_.capacity() == 0) spare_ = std::move(spare);
  deltas.swap(pending_);
  room_.store(pending_.data(), std::memory_order_relaxed);
  if (place_.empty()) return;
  for (const Delta& delta : deltas) place_[static_cast<std::size_t>(delta.choice)] = -1;
}

bool Channel::arm() {
  const std::lock_guard lock(mutex_);
  if (!pending_.empty()) return false;
  awake_ = false;
  return true;
}

void PulledChannel::wake(std::shared_ptr<Channel>&&, std::vector<std::shared_ptr<SinkChannel>>&) {
  schedule();
}

void PulledChannel::schedule() const {
  try {
    schedule_();
  } catch (...) {
    spdlog::error("a request's reader could not be woken: {}", current_exception_text());
  }
}

void PulledChannel::post(Delta&& delta) {
  if (append(std::move(delta))) schedule();
}

SinkChannel::SinkChannel(std::int32_t num_choices, Tap tap, Sink sink)
    : Channel(num_choices), tap_(std::move(tap)), sink_(std::move(sink)), num_open_(std::max(1, num_choices)) {}

void SinkChannel::deliver(const std::function<void(RequestId)>& abort) {
  take(taken_);
  for (Delta& delta : taken_) deliver_one(std::move(delta), abort);
  if (num_open_ <= 0) taken_.clear();  // otherwise the next take() gives its buffer back
}

void SinkChannel::deliver_one(Delta&& delta, const std::function<void(RequestId)>& abort) {
  const RequestId request = delta.request;
  const bool ends = delta.finish != FinishReason::kNone;
  try {
    if (tap_) tap_(delta);
    if (sink_) sink_(std::move(delta));
  } catch (...) {
    spdlog::error("request {}: its front end failed and the request is aborted: {}", request, current_exception_text());
    sink_ = nullptr;
    abort(request);
  }
  if (!ends || --num_open_ > 0) return;
  tap_ = nullptr;
  sink_ = nullptr;
}

}  // namespace mortise
