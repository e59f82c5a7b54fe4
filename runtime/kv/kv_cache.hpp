// runtime/kv/kv_cache.hpp: the KV blocks of a pipeline: counts the holders of each, and keeps blocks that others may
// reuse as a prefix.
// A block in the prefix tree is cached. A block is held (by sequences and pins, counted), cached free (cached, held by
// nobody, kept until its memory is needed), or free. Free blocks are used up before any block is evicted; then the
// least recently used leaf is evicted first.
// A holder holds a path of the tree from the root on. So if a node is held, its ancestors are held, and if it is cached
// free, its descendants are: all cached free blocks can be evicted, leaf by leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kv/block_pool.hpp"
#include "kv/lazy_array.hpp"
#include "kv/prefix_tree.hpp"

namespace mortise {

// A holder of blocks: a sequence or its pin. The cache keeps `num_sole` up to date, so the number of blocks that a
// preemption frees is known without counting. A holder must not move while it holds blocks, and must not hold a block
// twice.
struct KvHolder {
  std::int32_t num_sole = 0;  // blocks that only it holds: they become free or cached free once it releases them
};

// Invariant between calls: num_free() + num_cached_free() + held blocks == num_blocks(). Engine's thread only; takes no
// lock.
class KvCache {
 public:
  // Without `prefix_cache` nothing enters the tree and every match is empty. `observer`: as PrefixTree's.
  KvCache(std::size_t num_blocks, std::int32_t block_size, bool prefix_cache, KvObserver* observer = nullptr);

  // In the functions below `holder` is the holder of the blocks; nullptr if its `num_sole` is not needed.

  // Takes `n` blocks with one holder each, or none at all. Evicts cached free blocks if too few are free. nullopt:
  // fewer than `n` are free or cached free.
  [[nodiscard]] std::optional<std::vector<BlockId>> allocate(std::size_t n, KvHolder* holder = nullptr);
  // Adds a holder to the blocks of a path. REQUIRES: `blocks` is what tree().blocks() gave, or its beginning.
  void hold(std::span<const BlockId> blocks, KvHolder* holder = nullptr);
  // Names the holder of a block that was allocated without one.
  void set_holder(BlockId block, KvHolder& holder);
  // Drops one holder of each block. Blocks in the tree stay there. REQUIRES: `blocks` is a whole path, or a path and
  // blocks after it.
  void release(std::span<const BlockId> blocks, KvHolder* holder = nullptr);

  // Enters `block` into the tree as the child of `parent` for `tokens`; the caller continues to hold it. If another
  // block already has these tokens, the caller holds that block instead, `block` is released, and the other block is
  // returned: both have the same bits. The returned block is the parent of the caller's next block.
  // Returns nullopt if prefix caching is off, or if two hashes collide, so that the block cannot be a node. Then the
  // caller publishes neither this block nor any after it. REQUIRES: the caller holds `block` and the path to `parent`.
  std::optional<BlockId> publish(BlockId parent, std::span<const std::int32_t> tokens, BlockId block,
                                 KvHolder* holder = nullptr);

  // Keeps a partial block in the tree below `parent`, so that others may copy it. The caller continues to hold it.
  // REQUIRES: as publish(), and this is the caller's last call for it before release().
  void keep_partial_block(BlockId parent, std::span<const std::int32_t> tokens, BlockId block);

  // Frees all cached free blocks. They do not count as evictions.
  void evict_all();

  std::size_t num_blocks() const { return pool_.num_blocks(); }
  std::size_t num_free() const { return pool_.num_free(); }
  std::size_t num_cached_free() const { return num_cached_free_; }  // cached, held by nobody
  std::size_t num_available() const { return num_free() + num_cached_free(); }
  std::uint64_t num_evictions() const { return num_evictions_; }

  // Returns whether only the tree holds the block.
  bool is_cached_free(BlockId block) const { return pool_.num_holders(block) == 1 && tree_.contains(block); }
  // Holders other than the tree.
  std::uint32_t num_holders(BlockId block) const { return pool_.num_holders(block) - (tree_.contains(block) ? 1 : 0); }
  PrefixTree& tree() { return tree_; }
  const PrefixTree& tree() const { return tree_; }

 private:
  void evict_one();
  void add_leaf(BlockId block);
  void drop_leaf(BlockId block);
  // Called after a change of the pool's count, when `holder` has taken or released the block.
  void holder_came(BlockId block, KvHolder* holder);
  void holder_went(BlockId block, KvHolder* holder);

  const bool prefix_cache_;
  BlockPool pool_;  // the tree counts as a holder of its nodes
  PrefixTree tree_;
  // By block: the addresses of its holders, combined by exclusive or. If a block has one holder, it is that holder's
  // address.
  LazyArray<std::uintptr_t> holders_;
  std::size_t num_cached_free_ = 0;
  std::uint64_t num_evictions_ = 0;
  std::uint64_t clock_ = 0;             // counts releases
  LazyArray<std::uint64_t> last_used_;  // by block
  // Cached free leaves, the least recently used first. Of the blocks of one release only the deepest is a leaf, so it
  // is evicted first.
  std::set<std::pair<std::uint64_t, BlockId>> leaves_;
};

}  // namespace mortise
