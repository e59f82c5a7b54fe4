// runtime/published.hpp: a pointer to a value that one thread replaces while others read it. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace mortise {

// Instead of std::atomic<std::shared_ptr>: in libstdc++ 12 its load() ends with a relaxed store, so a read of the
// pointer and the next write are not ordered. Invariant: a loaded value never changes. Thread-safe.
template <typename T>
class Published {
 public:
  explicit Published(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  std::shared_ptr<const T> load() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;  // guards value_
  std::shared_ptr<const T> value_;
};

}  // namespace mortise
