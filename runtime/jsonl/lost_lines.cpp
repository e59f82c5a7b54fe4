#include "jsonl/lost_lines.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace mortise {

struct LostLines::State {
  std::mutex mutex;  // guards the members below
  std::optional<std::size_t> first;
};

// Reports its line as lost when its last owner is destroyed before finished() was called. Thread-safe.
class LostLines::Watch {
 public:
  Watch(std::shared_ptr<State> state, std::size_t number) : state_(std::move(state)), number_(number) {}
  ~Watch() {
    if (finished_) return;
    const std::lock_guard lock(state_->mutex);
    state_->first = std::min(number_, state_->first.value_or(number_));
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void finished() { finished_ = true; }

 private:
  const std::shared_ptr<State> state_;
  const std::size_t number_;
  std::atomic<bool> finished_ = false;
};

std::shared_ptr<LostLines::State> LostLines::make_state() {
  return std::make_shared<State>();
}

FinishLine LostLines::watch(FinishLine finish, std::size_t line_number) const {
  return [finish = std::move(finish), watch = std::make_shared<Watch>(state_, line_number)](LineResult result) {
    finish(std::move(result));
    watch->finished();
  };
}

std::optional<std::size_t> LostLines::first() const {
  const std::lock_guard lock(state_->mutex);
  return state_->first;
}

}  // namespace mortise
