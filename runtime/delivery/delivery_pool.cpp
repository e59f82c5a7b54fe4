#include "delivery/delivery_pool.hpp"

#include <algorithm>
#include <utility>

namespace mortise {

DeliveryPool::DeliveryPool(std::size_t num_threads, std::function<void(RequestId)> abort) : abort_(std::move(abort)) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, num_threads); ++i) threads_.emplace_back([this] { work(); });
}

DeliveryPool::~DeliveryPool() {
  stop();
}

std::size_t DeliveryPool::default_threads() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 1, 4);
}

void DeliveryPool::read(std::vector<std::shared_ptr<SinkChannel>>& channels) {
  if (channels.empty()) return;
  const bool several = channels.size() > 1;
  {
    const std::lock_guard lock(mutex_);
    for (auto& channel : channels) queue_.push_back(std::move(channel));
  }
  several ? changed_.notify_all() : changed_.notify_one();
  channels.clear();
}

void DeliveryPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void DeliveryPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::shared_ptr<SinkChannel> channel = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    channel->deliver(abort_);
    const bool more = !channel->arm();
    if (!more) channel.reset();  // frees it here, not under the lock
    lock.lock();
    if (more) queue_.push_back(std::move(channel));  // at the end, so that other channels do not wait for a busy one
  }
}

}  // namespace mortise
