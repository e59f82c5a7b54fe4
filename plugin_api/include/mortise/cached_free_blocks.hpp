// mortise/cached_free_blocks.hpp: how many free blocks a plan takes when several sequences share cached ones. C++20,
// for schedulers. Not part of the ABI: compiled into the plugin, like plugin.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mortise/scheduler.h"

namespace mortise {

// Counts the cached blocks that no sequence holds, while a plan starts waiting sequences. When several sequences share
// such a block, only the first one that starts is charged for it. The order of starts does not matter. Make one for
// each plan that preempts nobody. Invariant: the counts are those of the sequences given to start() so far. For one
// thread.
class CachedFreeBlocks {
 public:
  // Keeps a reference to `view`.
  explicit CachedFreeBlocks(const mortise_schedule_view& view)
      : view_(view), num_taken_(static_cast<std::size_t>(view.num_seqs), 0) {}

  // The blocks that starting sequence `i` of the view would take from num_free_blocks: its num_cached_free_blocks
  // without those that started sequences have taken.
  int32_t left(int32_t i) const {
    int32_t taken = 0;
    int32_t common = view_.num_cached_free_blocks[i];  // how many first blocks `i` and `at` have in common
    for (int32_t at = i; taken < common; at = view_.cached_free_with[at]) {
      taken = std::max(taken, std::min(common, num_taken_[static_cast<std::size_t>(at)]));
      if (view_.cached_free_with[at] == at) break;
      common = std::min(common, view_.cached_free_shared[at]);
    }
    return view_.num_cached_free_blocks[i] - taken;
  }
  // Records that the plan starts sequence `i`, with all its cached blocks.
  void start(int32_t i) {
    int32_t common = view_.num_cached_free_blocks[i];
    for (int32_t at = i; num_taken_[static_cast<std::size_t>(at)] < common; at = view_.cached_free_with[at]) {
      num_taken_[static_cast<std::size_t>(at)] = common;
      if (view_.cached_free_with[at] == at) break;
      common = std::min(common, view_.cached_free_shared[at]);
    }
  }

 private:
  const mortise_schedule_view& view_;
  std::vector<int32_t> num_taken_;  // by sequence: how many of its first cached free blocks are taken
};

}  // namespace mortise
