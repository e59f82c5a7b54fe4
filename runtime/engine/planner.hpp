// runtime/engine/planner.hpp: asks the scheduler for a step's plan and checks it. A plan that breaks a bound is
// replaced for that step by first come, first served: a foreign scheduler can make the engine slow, never wrong and
// never stuck.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/parts.hpp"
#include "engine/sequence.hpp"
#include "kv/block_pool.hpp"

namespace mortise {

struct PlannedSequence {
  std::shared_ptr<Sequence> sequence;
  std::int32_t num_new_tokens = 0;
};

struct StepPlan {
  std::vector<PlannedSequence> scheduled;
  std::vector<std::shared_ptr<Sequence>> preempted;
};

class Planner {
 public:
  Planner(const Parts& parts, const EngineLimits& limits) : parts_(parts), limits_(limits) {}

  void added(const Sequence& sequence);
  void ended(std::uint64_t seq_id);
  // `live`: every sequence that has not ended, in order of arrival. Draft tokens that a sequence may use come from
  // `lookahead` (parallel to `live`).
  StepPlan plan(std::uint64_t step_id, const std::deque<std::shared_ptr<Sequence>>& live,
                const std::vector<std::int32_t>& lookahead, const BlockPool& pool);

  std::uint64_t num_rejected_plans() const { return num_rejected_; }

 private:
  struct View;
  void send_events();
  StepPlan first_come_first_served(const View& view) const;

  const Parts& parts_;
  const EngineLimits& limits_;
  std::vector<std::int32_t> event_kinds_, event_tokens_;
  std::vector<std::uint64_t> event_ids_;
  std::uint64_t num_rejected_ = 0;
};

}  // namespace mortise
