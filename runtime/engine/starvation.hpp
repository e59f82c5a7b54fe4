// runtime/engine/starvation.hpp: finds sequences that a scheduler starves, by the bounds of mortise/scheduler.h.
// Watches only the oldest sequence of each priority that a plan leaves out, because younger sequences may be waiting
// for it. Engine's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace mortise {

// A plan that is about to run. Arrays have one entry for each sequence of the view, in order of arrival.
struct WatchedPlan {
  std::span<const std::uint64_t> ids;
  std::span<const std::int32_t> priorities;  // lower runs first
  std::span<const std::int32_t> states;      // MORTISE_SEQ_*, before the plan
  std::span<const char> scheduled;           // 1: this plan schedules it
  // The rows, sequences (of max_num_seqs) and blocks that the plan leaves unused.
  std::int64_t rows = 0, num_seqs_left = 0, blocks = 0;
  // Empty: the plan is run, so it admits every waiting sequence that it schedules. For a rehearsed plan, 1: the first
  // such plan that schedules this waiting sequence.
  std::span<const char> admits = {};
};

// The most rows and blocks that a sequence may still need until its end.
struct SequenceNeed {
  std::int64_t rows = 0, blocks = 0;
};

struct StarvationLimits {
  std::int64_t idle_plans = 0;
  std::int64_t passed_rows = 0;
};

// Counts how long and by how much each left-out sequence is passed. Invariant: waits_ has only sequences that were the
// oldest left out of their priority and have not run since. Engine's thread only.
class StarvationWatch {
 public:
  explicit StarvationWatch(const StarvationLimits& limits) : limits_(limits) {}

  struct Starved {
    std::size_t index;  // of the view
    std::string why;    // "sequence 7 ..."
  };
  // Counts a plan, and returns the first sequence that starves, if any. Calls `need` for few sequences only: thousands
  // may wait.
  std::optional<Starved> look(const WatchedPlan& plan, const std::function<SequenceNeed(std::size_t)>& need);
  void ended(std::uint64_t id) { waits_.erase(id); }

 private:
  // Counted since the sequence last ran.
  struct Wait {
    std::int64_t idle_plans = 0;   // plans with room that left the sequence out, after a younger one had passed it
    std::int64_t passed_rows = 0;  // of younger sequences that were admitted meanwhile
  };
  std::optional<std::string> verdict(std::uint64_t id, const Wait& wait) const;

  const StarvationLimits limits_;
  std::unordered_map<std::uint64_t, Wait> waits_;  // by id, of sequences that were the oldest left out
};

}  // namespace mortise
