#include "kv_events/replay_buffer.hpp"

#include <cassert>
#include <utility>

namespace mortise {

void ReplayBuffer::add(std::uint64_t seq, Payload payload) {
  assert(messages_.empty() || messages_.back().seq + 1 == seq);
  bytes_ += payload->size();
  messages_.push_back({seq, std::move(payload)});
  while (messages_.size() > 1 && (messages_.size() > max_messages_ || bytes_ > max_bytes_)) {
    bytes_ -= messages_.front().payload->size();
    messages_.pop_front();
  }
}

}  // namespace mortise
