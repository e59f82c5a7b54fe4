#include "engine/starvation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "mortise/scheduler.h"

namespace mortise {

std::optional<StarvationWatch::Starved> StarvationWatch::look(const WatchedPlan& plan,
                                                              const std::function<SequenceNeed(std::size_t)>& need) {
  struct LeftOut {
    std::size_t index;
    std::int32_t priority;
    Wait* wait;
  };
  std::vector<LeftOut> oldest;  // of each priority
  for (std::size_t i = 0; i < plan.ids.size(); ++i) {
    const std::int32_t priority = plan.priorities[i];
    if (plan.scheduled[i] != 0) {
      if (!waits_.empty()) waits_.erase(plan.ids[i]);
      const bool admits = plan.admits.empty() ? plan.states[i] != MORTISE_SEQ_RUNNING : plan.admits[i] != 0;
      if (oldest.empty() || !admits) continue;
      const std::int64_t rows = need(i).rows;
      for (const LeftOut& older : oldest) {
        if (priority >= older.priority) older.wait->passed_rows += rows;
      }
    } else if (std::ranges::find(oldest, priority, &LeftOut::priority) == oldest.end()) {
      oldest.push_back({i, priority, &waits_[plan.ids[i]]});
    }
  }
  std::optional<Starved> starved;
  for (const LeftOut& left_out : oldest) {
    Wait& wait = *left_out.wait;
    const bool has_room = plan.states[left_out.index] == MORTISE_SEQ_RUNNING || plan.num_seqs_left > 0;
    // If no younger sequence has passed it, the plan is not idle: a scheduler may run fewer sequences than it could.
    if (wait.passed_rows > 0 && has_room && plan.rows > 0 && need(left_out.index).blocks <= plan.blocks) {
      ++wait.idle_plans;
    }
    if (starved) continue;
    if (auto why = verdict(plan.ids[left_out.index], wait)) starved = {left_out.index, std::move(*why)};
  }
  return starved;
}

std::optional<std::string> StarvationWatch::verdict(std::uint64_t id, const Wait& wait) const {
  if (wait.idle_plans >= limits_.idle_plans) {
    return fmt::format("sequence {} starves: {} plans left it out although they had room for it", id, wait.idle_plans);
  }
  if (wait.passed_rows > limits_.passed_rows) {
    return fmt::format("sequence {} starves: later sequences that were admitted before it may run {} rows", id,
                       wait.passed_rows);
  }
  return std::nullopt;
}

}  // namespace mortise
