// runtime/delivery/delivery_pool.hpp: the threads on which sinks build their answers, so that the engine's thread does
// not. Deltas of one request are delivered in order, by one thread at a time; different requests are delivered by
// several threads at once. Thread-safe.
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

// Invariant: a channel is in the queue or with one thread, never both. Thread-safe.
class DeliveryPool {
 public:
  // `abort` ends a request whose sink has thrown. [pool threads]
  DeliveryPool(std::size_t num_threads, std::function<void(RequestId)> abort);
  ~DeliveryPool();  // stop()
  DeliveryPool(const DeliveryPool&) = delete;
  DeliveryPool& operator=(const DeliveryPool&) = delete;

  // Delivers these channels soon, and empties the list. Wakes the threads once for the whole list.
  void read(std::vector<std::shared_ptr<SinkChannel>>& channels);
  // Delivers everything that has come, then ends the threads.
  // REQUIRES: no delta is appended any more.
  void stop();

  // Building answers takes much less time than computing their tokens: one thread, and a few on large machines, which
  // have a GPU.
  static std::size_t default_threads();

 private:
  void work();

  const std::function<void(RequestId)> abort_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<SinkChannel>> queue_;  // each channel is in here or with one thread, never both
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace mortise
