#include "kv/cached_free_prefixes.hpp"

namespace mortise {

void CachedFreePrefixes::find(std::span<const BlockId> paths, const KvCache& cache) {
  ++pass_;
  for (auto* array : {&num_cached_free_, &with_, &num_shared_}) array->assign(paths.size(), 0);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto self = static_cast<std::int32_t>(i);
    const auto cached_free = [&](BlockId block) { return block != kPrefixRoot && cache.is_cached_free(block); };
    BlockId block = paths[i];
    for (fresh_.clear(); cached_free(block) && mark(block).pass != pass_; block = cache.tree().parent(block)) {
      fresh_.push_back(block);
    }
    with_[i] = self;
    if (cached_free(block)) {  // the earlier sequence also has all blocks before this one
      with_[i] = mark(block).sequence;
      num_shared_[i] = mark(block).num_cached_free;
    }
    num_cached_free_[i] = num_shared_[i];
    for (auto at = fresh_.rbegin(); at != fresh_.rend(); ++at) mark(*at) = {pass_, self, ++num_cached_free_[i]};
  }
}

}  // namespace mortise
