// mortise/scheduler.hpp: for schedulers in C++20. Not part of the ABI: compiled into the plugin, as plugin.hpp is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mortise/scheduler.h"

namespace mortise {

// Of the cached blocks that nobody holds: which ones the waiting sequences that a plan starts take. Several that begin
// with the same blocks take them once, in whatever order they are started. For plans that preempt nobody.
class CachedFreeBlocks {
 public:
  // The view outlives it.
  explicit CachedFreeBlocks(const mortise_schedule_view& view)
      : view_(view), num_taken_(static_cast<std::size_t>(view.num_seqs), 0) {}

  // What sequence `i` of the view would still take of its own.
  int32_t left(int32_t i) const {
    int32_t taken = 0;
    int32_t common = view_.num_cached_free_blocks[i];  // of the path of `i` and that of `at`
    for (int32_t at = i; taken < common; at = view_.cached_free_with[at]) {
      taken = std::max(taken, std::min(common, num_taken_[static_cast<std::size_t>(at)]));
      if (view_.cached_free_with[at] == at) break;
      common = std::min(common, view_.cached_free_shared[at]);
    }
    return view_.num_cached_free_blocks[i] - taken;
  }
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
  std::vector<int32_t> num_taken_;  // by sequence: so many of the first blocks of its path that nobody held
};

}  // namespace mortise
