// plugins/schedulers/common/planner.hpp: plans one step for sequences in a given order. A plan depends on the view, the
// limits and the order alone: nothing is remembered from step to step.
//
//   Order   The scheduler's order, by priority first. Running sequences come before waiting sequences, and running
//           sequences that decode before those still in their prompt. Waiting sequences that are not in the order
//           go on waiting.
//   Memory  A running sequence that lacks blocks takes them from the last running sequence in the order, never from a
//           sequence before it. A waiting sequence takes blocks from running sequences of worse priority in the same
//           way. Any other waiting sequence is admitted if all its known tokens fit, after the blocks that running
//           sequences need for their known tokens and one more block for each. A sequence that does not fit holds back
//           all later ones. A cached prefix that nobody holds is charged once.
//   Drafts  No sequence is preempted for drafts. They get the rows and free blocks that are left when every decoding
//           sequence has its token; prompts come next. If the host forbids cutting drafts, they count as tokens that
//           must be run.
//
// So the first sequence in the order always makes progress, and no sequence starves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mortise/plan_blocks.hpp"

namespace mortise::scheduling {

struct Limits {
  int32_t max_num_seqs;
  int32_t max_batched_tokens;
};

// A sequence in the order in which the planner serves them.
struct OrderEntry {
  int32_t index;          // of the view
  int64_t keep_free = 0;  // blocks that this sequence and later ones leave to sequences that cannot be admitted yet
};

// Builds one plan. Invariant: the plan so far fits the view's token_budget, seq_budget and free blocks. Used by one
// thread, for one plan.
class Planner {
 public:
  // The view outlives the planner. The smaller of the view's budgets and `limits` applies. REQUIRES: `order` has all
  // running sequences, no sequence twice, and is sorted by priority.
  Planner(const mortise_schedule_view& view, const Limits& limits, std::span<const OrderEntry> order);

  void plan();
  void write(mortise_schedule_plan& out) const;
  bool schedules(int32_t index) const { return new_tokens_[index] > 0; }

 private:
  bool running(int32_t i) const { return view_.states[i] == MORTISE_SEQ_RUNNING; }
  int32_t run_begin(int32_t i) const { return mortise_plan_run_begin(&view_, i); }
  int32_t remaining(int32_t i) const { return view_.num_tokens[i] - run_begin(i); }
  int64_t end_of(int32_t i, int32_t n) const;
  int64_t rows(int32_t i, int32_t n) const { return end_of(i, n) - run_begin(i); }
  int64_t cost(int32_t i, int64_t end) const { return blocks_.needed(i, end); }
  int32_t largest_run(int32_t i, int64_t free_blocks) const;

  void serve(int32_t i);
  bool can_displace(int32_t i) const;
  void admit_urgent();
  void admit_waiting();
  void take(int32_t i, int32_t n);
  void grant_drafts(int32_t i);
  bool withdraw_drafts();
  void preempt(int32_t i);
  int32_t last_running() const;
  int64_t still_needed(int32_t i) const;

  const mortise_schedule_view& view_;
  const int32_t seq_budget_;
  const bool cuts_drafts_;
  int64_t rows_left_;
  PlanBlocks blocks_;
  int32_t num_running_ = 0;   // including sequences that this plan admits
  int32_t num_admitted_ = 0;  // by this plan
  int32_t num_scheduled_ = 0;
  std::vector<int32_t> order_;       // indices of the view
  std::vector<int64_t> keep_free_;   // by position in the order
  std::vector<int32_t> new_tokens_;  // by index of the view; 0: not in the plan
  std::vector<int32_t> drafts_;      // granted so far, by index of the view
  std::vector<int32_t> preempted_;   // indices, in the order of preemption
  std::vector<char> is_preempted_;   // by index of the view
  const bool drafts_wanted_;         // any sequence wants drafts
};

}  // namespace mortise::scheduling
