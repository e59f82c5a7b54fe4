#include "kv/unheld_prefixes.hpp"

#include <algorithm>

namespace mortise {

void UnheldPrefixes::find(std::span<const PrefixPath> starts, const KvCache& cache) {
  ++pass_;
  for (auto* array : {&num_unheld_, &first_, &num_shared_}) array->resize(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto self = static_cast<std::int32_t>(i);
    // Whoever holds a block holds those before it, so the ones that nobody holds come last; and what is in front of a
    // block that an earlier one of these has, that one has too.
    fresh_.clear();
    BlockId block = starts[i].last;
    while (block != kPrefixRoot && cache.is_cached(block) && marks_[static_cast<std::size_t>(block)].pass != pass_) {
      fresh_.push_back(block);
      block = cache.tree().parent(block);
    }
    Mark shared{.pass = pass_, .sequence = self};
    if (block != kPrefixRoot && cache.is_cached(block)) shared = marks_[static_cast<std::size_t>(block)];
    std::int32_t num_unheld = shared.num_unheld;
    for (auto at = fresh_.rbegin(); at != fresh_.rend(); ++at) {
      marks_[static_cast<std::size_t>(*at)] = {pass_, self, ++num_unheld};
    }
    num_unheld_[i] = num_unheld;
    if (shared.sequence == self) {
      first_[i] = self;
      num_shared_[i] = num_unheld;
    } else {
      const auto other = static_cast<std::size_t>(shared.sequence);
      first_[i] = first_[other];
      num_shared_[i] = std::min(shared.num_unheld, num_shared_[other]);
    }
  }
}

}  // namespace mortise
