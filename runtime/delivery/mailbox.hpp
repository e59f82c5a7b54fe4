// runtime/delivery/mailbox.hpp: a channel for a front end that has a thread of its own, which waits for deltas.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "delivery/channel.hpp"

namespace mortise {

// A channel and the bell that its appends ring. Invariant: an append after an empty wait rings the bell. The reader is
// one thread; appends come from others.
class Mailbox {
 public:
  explicit Mailbox(std::int32_t num_choices);

  // For Engine::submit. It may outlive the mailbox; later deltas are lost then.
  const std::shared_ptr<PulledChannel>& channel() const { return channel_; }
  // Waits at most `timeout` for deltas, and replaces the content of `deltas` by them. Empty: none came. [reader]
  void wait_for(std::chrono::milliseconds timeout, std::vector<Delta>& deltas);

 private:
  struct Bell {
    std::mutex mutex;
    std::condition_variable rings;
    bool rung = false;
  };
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  const std::shared_ptr<PulledChannel> channel_;
};

}  // namespace mortise
