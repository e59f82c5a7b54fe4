// runtime/kv_events/replay_buffer.hpp: the latest messages, for readers that missed some. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "kv_events/frames.hpp"

namespace mortise {

// Invariant: the messages have consecutive numbers. Used by one thread.
class ReplayBuffer {
 public:
  struct Message {
    std::uint64_t seq = 0;
    Payload payload;
  };

  // Holds at most `max_messages` messages and `max_bytes` bytes of payloads. The latest message is kept even if it is
  // larger.
  ReplayBuffer(std::size_t max_messages, std::size_t max_bytes) : max_messages_(max_messages), max_bytes_(max_bytes) {}

  // REQUIRES: `seq` is one more than the preceding message's.
  void add(std::uint64_t seq, Payload payload);
  // Whether it has all messages from `seq` on.
  // REQUIRES: it is not empty.
  bool reaches_back_to(std::uint64_t seq) const { return messages_.front().seq <= seq; }
  const std::deque<Message>& messages() const { return messages_; }  // by seq

 private:
  const std::size_t max_messages_, max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<Message> messages_;
};

}  // namespace mortise
