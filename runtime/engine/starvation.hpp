// runtime/engine/starvation.hpp: finds sequences that a scheduler starves, by the bounds of mortise/scheduler.h.
// Watches the oldest sequence of each priority that a plan leaves out: those behind it may be waiting for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace mortise {

// A plan that is about to run. Arrays are by index of its view, which is in order of arrival.
struct WatchedPlan {
  std::span<const std::uint64_t> ids;
  std::span<const std::int32_t> priorities;  // lower runs first
  std::span<const std::int32_t> states;      // MORTISE_SEQ_*, before the plan
  std::span<const char> scheduled;           // 1: by this plan
  // What the plan leaves unused.
  std::int64_t rows = 0, places = 0, blocks = 0;
  // Of a plan that nobody carries out, 1: waiting, scheduled, and by no such plan before. Empty: the plan is run, so
  // that every waiting one that it schedules is started.
  std::span<const char> starts = {};
};

// What a sequence may still take until its end, at most.
struct SequenceNeed {
  std::int64_t rows = 0, blocks = 0;
};

struct StarvationLimits {
  std::int64_t idle_plans = 0;
  std::int64_t passed_rows = 0;
};

class StarvationWatch {
 public:
  explicit StarvationWatch(const StarvationLimits& limits) : limits_(limits) {}

  struct Starved {
    std::size_t index;  // of the view
    std::string why;    // "sequence 7 ..."
  };
  // The first sequence that starves, if any. `need` is asked for a few: thousands may wait.
  std::optional<Starved> look(const WatchedPlan& plan, const std::function<SequenceNeed(std::size_t)>& need);
  void ended(std::uint64_t id) { waits_.erase(id); }

 private:
  // Since the sequence last ran.
  struct Wait {
    std::int64_t idle_plans = 0;   // that left it out with room for it, after a younger one had passed it
    std::int64_t passed_rows = 0;  // of younger sequences that were started
  };
  std::optional<std::string> verdict(std::uint64_t id, const Wait& wait) const;

  const StarvationLimits limits_;
  std::unordered_map<std::uint64_t, Wait> waits_;  // by sequence, of those that were the oldest left out
};

}  // namespace mortise
