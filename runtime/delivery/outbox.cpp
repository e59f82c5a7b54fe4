#include "delivery/outbox.hpp"

#include <chrono>

namespace mortise {

void Outbox::send() {
  if (entries_.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  for (auto& [channel, delta] : entries_) {
    delta.sent = now;
    if (channel->append(std::move(delta))) channel->wake(ready_);
    if (delta.tokens.capacity() > 0 && buffers_.size() < kMaxBuffers) buffers_.push_back(std::move(delta.tokens));
  }
  entries_.clear();
  pool_.read(ready_);
}

}  // namespace mortise
