// plugins/schedulers/common/planner.hpp: one step's plan for sequences in a given order. A pure function of the view,
// the limits and the order: nothing is remembered from step to step.
//
//   Order   the scheduler's, by priority first. Running sequences come before waiting ones, among them those that
//           decode before those that are still in their prompt. Waiting ones that are not in the order stay where they
//           are.
//   Memory  a running sequence that lacks blocks takes them from the last running one in the order, never from one
//           before it; so does a waiting one from those of worse priority. Any other waiting one is admitted when all
//           its known tokens fit beside what the running ones still need to finish theirs and one block each; whoever
//           does not fit holds back all after it. A cached prefix that nobody holds is paid for once.
//   Drafts  nobody is preempted for them: they get the rows and free blocks that are left once every sequence that
//           decodes has its token, then come prompts. Where the host forbids to cut drafts they count as tokens that
//           must be run.
//
// So the first sequence in the order always gets on, and nobody is starved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mortise/scheduler.hpp"

namespace mortise::scheduling {

struct Limits {
  int32_t max_num_seqs;
  int32_t max_batched_tokens;
};

// A sequence's place in the order.
struct Place {
  int32_t index;          // of the view
  int64_t keep_free = 0;  // blocks that this one and those after it leave to sequences which cannot be admitted yet
};

class Planner {
 public:
  // The view outlives the planner. The smaller of its budgets and `limits` holds. REQUIRES: `order` has all running
  // sequences, nobody twice, and is sorted by priority.
  Planner(const mortise_schedule_view& view, const Limits& limits, std::span<const Place> order);

  void plan();
  void write(mortise_schedule_plan& out) const;
  bool schedules(int32_t index) const { return new_tokens_[index] > 0; }

 private:
  bool running(int32_t i) const { return view_.states[i] == MORTISE_SEQ_RUNNING; }
  int32_t start(int32_t i) const { return running(i) ? view_.num_computed[i] : view_.num_cached[i]; }
  int32_t remaining(int32_t i) const { return view_.num_tokens[i] - start(i); }
  int64_t end_of(int32_t i, int32_t n) const;
  int64_t rows(int32_t i, int32_t n) const { return end_of(i, n) - start(i); }
  int64_t cached_blocks_taken(int32_t i) const;
  int64_t cost(int32_t i, int64_t end) const;
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
  int64_t free_blocks_;
  int32_t num_running_ = 0;   // with those that this plan admits
  int32_t num_admitted_ = 0;  // by this plan
  int32_t num_scheduled_ = 0;
  std::vector<int32_t> order_;       // indices of the view
  std::vector<int64_t> keep_free_;   // by place in the order
  std::vector<int32_t> new_tokens_;  // by index of the view; 0: not in the plan
  std::vector<int32_t> drafts_;      // granted so far, by index of the view
  std::vector<int32_t> preempted_;   // indices, in the order of preemption
  std::vector<char> is_preempted_;   // by index of the view
  CachedFreeBlocks cached_free_;     // counts what those that the plan starts take
  const bool drafts_wanted_;         // by any sequence
};

}  // namespace mortise::scheduling
