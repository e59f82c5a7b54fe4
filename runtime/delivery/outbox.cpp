#include "delivery/outbox.hpp"

#include <chrono>
#include <cstddef>

namespace mortise {
namespace {

constexpr std::size_t kAhead = 8;  // channels

}  // namespace

void Outbox::send() {
  if (entries_.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (i + kAhead < entries_.size()) entries_[i + kAhead].first->prefetch_room();
    auto& [channel, delta] = entries_[i];
    delta.sent = now;
    Channel& reached = *channel;  // wake() may move `channel`
    if (reached.append(std::move(delta))) reached.wake(std::move(channel), ready_);
    if (delta.tokens.capacity() > 0 && buffers_.size() < kMaxBuffers) buffers_.push_back(std::move(delta.tokens));
  }
  entries_.clear();
  pool_.read(ready_);
}

}  // namespace mortise
