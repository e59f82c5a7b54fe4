// runtime/delivery/delivery_pool.hpp: the threads on which sinks build their answers, so that the engine's thread does
// not. Deltas of one request are delivered in order and by one thread at a time; different requests' by several threads
// at once. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "delivery/channel.hpp"

namespace mortise {

class DeliveryPool {
 public:
  // `abort` ends a request whose sink has thrown. [pool threads]
  DeliveryPool(std::size_t num_threads, std::function<void(RequestId)> abort);
  ~DeliveryPool();  // stop()
  DeliveryPool(const DeliveryPool&) = delete;
  DeliveryPool& operator=(const DeliveryPool&) = delete;

  // Reads these channels soon and empties the list. Wakes the threads once, however many channels there are.
  void read(std::vector<std::shared_ptr<SinkChannel>>& channels);
  // Delivers what has come so far, then ends the threads. REQUIRES: nothing is appended any more.
  void stop();

  // Answers take far less than the tokens they are made of: one thread, and on large machines, where a GPU makes the
  // tokens, a few.
  static std::size_t default_threads();

 private:
  void work();

  const std::function<void(RequestId)> abort_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<SinkChannel>> queue_;  // a channel is in here or with a thread, never twice
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace mortise
