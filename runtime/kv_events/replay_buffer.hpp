// runtime/kv_events/replay_buffer.hpp: the latest messages, for readers who missed some. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "kv_events/frames.hpp"

namespace mortise {

class ReplayBuffer {
 public:
  struct Message {
    std::uint64_t seq = 0;
    Payload payload;
  };

  // Holds at most so many messages and bytes of payloads; the latest message is kept whatever its size.
  ReplayBuffer(std::size_t max_messages, std::size_t max_bytes) : max_messages_(max_messages), max_bytes_(max_bytes) {}

  // REQUIRES: `seq` is one more than that of the message before.
  void add(std::uint64_t seq, Payload payload);
  // Whether no message from `seq` on is missing. REQUIRES: there is one.
  bool reaches_back_to(std::uint64_t seq) const { return messages_.front().seq <= seq; }
  const std::deque<Message>& messages() const { return messages_; }  // by seq

 private:
  const std::size_t max_messages_, max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<Message> messages_;
};

}  // namespace mortise
