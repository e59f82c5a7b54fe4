// runtime/engine/gap_watch.hpp: measures how long a swap kept streams waiting. The result is the largest time between
// two tokens of one sequence, from the beginning of the swap until every sequence that ran has its next token. Engine
// thread only.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/drafter.hpp"
#include "engine/sequence.hpp"

namespace mortise {

// Watches at most one swap at a time. Invariant: done_ is set if and only if a result is still due. Engine's thread
// only.
class GapWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  using Done = std::function<void(Seconds largest)>;

  // The watch ends this long after the exchange. A sequence that still waits then counts with its wait so far.
  static constexpr std::chrono::seconds kPatience{5};

  // Called for every step, with the tokens that it committed.
  void committed(std::span<const StepOutcome> outcomes);

  // A swap begins; gaps count from here on. Settles the previous swap if it is still watched.
  void begin();
  // The parts are about to be exchanged while these sequences live.
  void exchange(const std::deque<std::shared_ptr<Sequence>>& live);
  // The parts have been exchanged. `done` is called once, when all gaps have ended.
  void when_ended(Done done);
  // Called after each step.
  void end_step();
  // Calls a pending `done` now, with the largest gap so far.
  void settle();

 private:
  void drop_ended();

  Seconds largest_{0};
  Clock::time_point exchanged_{};
  std::vector<std::shared_ptr<const Sequence>> waiting_;  // for their first token since the exchange
  Done done_;                                             // empty: nothing is watched
};

}  // namespace mortise
