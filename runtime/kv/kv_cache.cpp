#include "kv/kv_cache.hpp"

#include <cassert>

namespace mortise {

KvCache::KvCache(std::size_t num_blocks, std::int32_t block_size, bool prefix_cache, KvObserver* observer)
    : prefix_cache_(prefix_cache),
      pool_(num_blocks),
      tree_(num_blocks, block_size, observer),
      holders_(num_blocks),
      last_used_(num_blocks) {}

void KvCache::holder_came(BlockId block, KvHolder* holder) {
  std::uintptr_t& holders = holders_[static_cast<std::size_t>(block)];
  const std::uint32_t count = num_holders(block);
  if (count == 1 && holder != nullptr) ++holder->num_sole;
  if (count == 2 && holders != 0) --reinterpret_cast<KvHolder*>(holders)->num_sole;
  holders ^= reinterpret_cast<std::uintptr_t>(holder);
}

void KvCache::set_holder(BlockId block, KvHolder& holder) {
  assert(num_holders(block) == 1 && holders_[static_cast<std::size_t>(block)] == 0);
  ++holder.num_sole;
  holders_[static_cast<std::size_t>(block)] = reinterpret_cast<std::uintptr_t>(&holder);
}

void KvCache::holder_went(BlockId block, KvHolder* holder) {
  std::uintptr_t& holders = holders_[static_cast<std::size_t>(block)];
  const std::uint32_t count = num_holders(block);
  holders ^= reinterpret_cast<std::uintptr_t>(holder);
  if (count == 0 && holder != nullptr) --holder->num_sole;
  if (count == 1 && holders != 0) ++reinterpret_cast<KvHolder*>(holders)->num_sole;
}

void KvCache::add_leaf(BlockId block) {
  leaves_.emplace(last_used_[static_cast<std::size_t>(block)], block);
}

void KvCache::drop_leaf(BlockId block) {
  leaves_.erase({last_used_[static_cast<std::size_t>(block)], block});
}

void KvCache::evict_one() {
  const BlockId block = leaves_.begin()->second;
  leaves_.erase(leaves_.begin());
  const BlockId parent = tree_.parent(block);
  tree_.erase(block);
  pool_.release(block);
  --num_cached_free_;
  ++num_evictions_;
  if (parent != kPrefixRoot && tree_.is_leaf(parent) && is_cached_free(parent)) add_leaf(parent);
}

void KvCache::evict_all() {
  const std::uint64_t num_evictions = num_evictions_;
  while (num_cached_free_ > 0) evict_one();
  num_evictions_ = num_evictions;
}

std::optional<std::vector<BlockId>> KvCache::allocate(std::size_t n, KvHolder* holder) {
  if (num_available() < n) return std::nullopt;
  while (num_free() < n) evict_one();
  auto blocks = pool_.allocate(n);
  for (const BlockId block : *blocks) holder_came(block, holder);
  return blocks;
}

void KvCache::hold(std::span<const BlockId> blocks, KvHolder* holder) {
  for (const BlockId block : blocks) {
    if (is_cached_free(block)) {
      --num_cached_free_;
      if (tree_.is_leaf(block)) drop_leaf(block);
    }
    pool_.share(block);
    holder_came(block, holder);
  }
}

void KvCache::release(std::span<const BlockId> blocks, KvHolder* holder) {
  ++clock_;
  for (const BlockId block : blocks) {
    pool_.release(block);
    holder_went(block, holder);
    if (!tree_.contains(block)) continue;
    // Another holder sets a later time when it releases the block.
    last_used_[static_cast<std::size_t>(block)] = clock_;
    if (!is_cached_free(block)) continue;
    ++num_cached_free_;
    if (tree_.is_leaf(block)) add_leaf(block);
  }
}

std::optional<BlockId> KvCache::publish(BlockId parent, std::span<const std::int32_t> tokens, BlockId block,
                                        KvHolder* holder) {
  if (!prefix_cache_) return std::nullopt;
  if (const std::optional<BlockId> cached = tree_.find(parent, tokens)) {
    hold(std::span(&*cached, 1), holder);
    pool_.release(block);
    holder_went(block, holder);
    return cached;
  }
  if (!tree_.insert(parent, tokens, block)) return std::nullopt;
  pool_.share(block);
  return block;
}

void KvCache::keep_partial_block(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) {
  if (!prefix_cache_) return;
  tree_.insert_partial(parent, tokens, block);
  pool_.share(block);
}

}  // namespace mortise
