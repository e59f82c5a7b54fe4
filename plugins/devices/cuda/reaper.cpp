#include "devices/cuda/reaper.hpp"

#include <chrono>
#include <exception>

namespace mortise::cuda {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);

}  // namespace

Reaper::Reaper(int ordinal) : ordinal_(ordinal), thread_([this](const std::stop_token& stop) { run(stop); }) {}

Reaper::~Reaper() {
  finish();
}

void Reaper::add(Item item) {
  try {
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
  } catch (const std::exception&) {  // there is no memory for the queue, so the item is destroyed at once
    item.destroy(item.what);
    return;
  }
  changed_.notify_all();
}

void Reaper::finish() {
  std::unique_lock lock(mutex_);
  ++num_waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return items_.empty(); });
  --num_waiting_;
}

void Reaper::run(const std::stop_token& stop) {
  cudaSetDevice(ordinal_);
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !items_.empty(); })) {
    const Item item = items_.front();
    lock.unlock();
    item.destroy(item.what);
    lock.lock();
    items_.pop_front();
    changed_.notify_all();
    changed_.wait_for(lock, stop, kPause, [&] { return hurries(); });
  }
}

}  // namespace mortise::cuda
