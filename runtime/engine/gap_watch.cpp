#include "engine/gap_watch.hpp"

#include <algorithm>
#include <utility>

namespace mortise {

void GapWatch::committed(std::span<const StepOutcome> outcomes) {
  const Clock::time_point now = Clock::now();
  for (const StepOutcome& outcome : outcomes) {
    const Clock::time_point before = std::exchange(outcome.sequence->last_token, now);
    if (before != Clock::time_point{}) largest_ = std::max<Seconds>(largest_, now - before);
  }
}

void GapWatch::begin() {
  settle();
  largest_ = Seconds{0};
}

void GapWatch::exchange(const std::deque<std::shared_ptr<Sequence>>& live) {
  waiting_.clear();
  for (const auto& sequence : live) {
    if (sequence->running() && sequence->last_token != Clock::time_point{}) waiting_.push_back(sequence);
  }
  exchanged_ = Clock::now();
}

void GapWatch::when_ended(Done done) {
  done_ = std::move(done);
  if (waiting_.empty()) settle();
}

void GapWatch::drop_ended() {
  std::erase_if(waiting_, [this](const auto& sequence) {
    return sequence->finish != FinishReason::kNone || sequence->last_token > exchanged_;
  });
}

void GapWatch::end_step() {
  if (!done_) return waiting_.clear();  // no swap, or a failed one: no sequence need be kept alive
  drop_ended();
  if (waiting_.empty() || Clock::now() - exchanged_ >= kPatience) settle();
}

void GapWatch::settle() {
  if (!done_) return;
  drop_ended();
  const Clock::time_point now = Clock::now();
  for (const auto& sequence : waiting_) largest_ = std::max<Seconds>(largest_, now - sequence->last_token);
  waiting_.clear();
  std::exchange(done_, {})(largest_);
}

}  // namespace mortise
