// mortise/plan_blocks.hpp: plan_blocks.h as a C++ class, with memory of its own. Not part of the ABI: compiled into the
// plugin, like plugin.hpp. C++20. Since 0.6.
#pragma once

#include <cstdint>
#include <vector>

#include "mortise/plan_blocks.h"

namespace mortise {

// Counts the KV blocks that a plan takes, as the host does: plan_blocks.h says how. Make one for each plan. Invariant:
// num_free() is the view's number of free blocks, plus what the preempted sequences free, minus what take() and run()
// took. For one thread.
class PlanBlocks {
 public:
  // Borrows `view`, which must outlive this object.
  explicit PlanBlocks(const mortise_schedule_view& view)
      : memory_(2 * static_cast<std::size_t>(view.num_seqs)),
        blocks_(mortise_plan_blocks_begin(&view, memory_.data())) {}
  PlanBlocks(const PlanBlocks&) = delete;
  PlanBlocks& operator=(const PlanBlocks&) = delete;

  int64_t num_free() const { return blocks_.num_free; }
  int32_t num_preempted() const { return blocks_.num_preempted; }
  // The blocks that sequence `i` takes for a run after which `end` tokens have KV.
  int64_t needed(int32_t i, int64_t end) const { return mortise_plan_blocks_needed(&blocks_, i, end); }
  // How many of the waiting sequence's cached free blocks the plan has not taken yet.
  int32_t cached_free(int32_t i) const { return mortise_plan_blocks_cached_free(&blocks_, i); }

  // Preempts the running sequence `i`. REQUIRES: no waiting sequence was admitted before
  // the first call of preempt().
  void preempt(int32_t i) { mortise_plan_blocks_preempt(&blocks_, i); }
  // Runs sequence `i`, once, until `end` tokens have KV.
  void run(int32_t i, int64_t end) { mortise_plan_blocks_run(&blocks_, i, end); }

  // The two halves of run(), for a planner that changes its mind about `end`: take() takes blocks, or returns them if
  // `n` is negative; admit() records that the plan admits the waiting sequence `i`.
  void take(int64_t n) { blocks_.num_free -= n; }
  void admit(int32_t i) { mortise_plan_blocks_admit(&blocks_, i); }

 private:
  std::vector<int32_t> memory_;
  mortise_plan_blocks blocks_;
};

}  // namespace mortise
