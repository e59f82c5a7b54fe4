// runtime/kv/kv_cache.hpp: the KV blocks of a pipeline: who holds them, and which ones are kept for their prefix.
// A block is free, held (by sequences and pins, counted), or cached: held by nobody but kept in the prefix tree until
// its memory is wanted; then the least recently used leaf goes first. Free blocks are used up before any is evicted.
// A holder holds a path of the tree from the root on, so a node that is held has held ancestors, and a cached node has
// cached descendants: all cached blocks can be evicted, leaf by leaf.
// Invariant between calls: num_free() + num_cached() + held blocks == num_blocks(). Engine thread only; takes no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kv/block_pool.hpp"
#include "kv/prefix_tree.hpp"

namespace mortise {

// Who holds blocks: a sequence, or its pin. The cache keeps `num_sole` true, so that nobody has to count blocks to know
// what a preemption would free. Stays where it is while it holds any, and never holds one twice.
struct KvHolder {
  std::int32_t num_sole = 0;  // blocks that it alone holds: they would be free or cached if it let go
};

class KvCache {
 public:
  // Without `prefix_cache` nothing enters the tree and every match is empty. `observer`: as PrefixTree's.
  KvCache(std::size_t num_blocks, std::int32_t block_size, bool prefix_cache, KvObserver* observer = nullptr);

  // In all of these `holder` is who holds the blocks, nullptr if it does not want its number of sole ones.

  // Takes `n` blocks, one holder each, or takes none; evicts cached blocks when too few are free. nullopt: fewer than
  // `n` are free or cached.
  [[nodiscard]] std::optional<std::vector<BlockId>> allocate(std::size_t n, KvHolder* holder = nullptr);
  // Adds a holder to the blocks of a path. REQUIRES: `blocks` is what tree().blocks() gave, or its beginning.
  void hold(std::span<const BlockId> blocks, KvHolder* holder = nullptr);
  // Names the holder of a block that was allocated without one.
  void set_holder(BlockId block, KvHolder& holder);
  // Drops a holder of each; what is in the tree stays there. REQUIRES: a whole path, or a path and blocks after it.
  void release(std::span<const BlockId> blocks, KvHolder* holder = nullptr);

  // Makes `block` known as the child of `parent` for `tokens`; the caller goes on holding it. If another block has
  // these tokens already, that one is held instead, `block` is released, and the other is returned: both have the same
  // bits. The caller's next block has the returned one as its parent. nullopt: prefix caching is off, or the block
  // cannot be a node (two hashes are equal); the caller then keeps its blocks from here on to itself.
  // REQUIRES: the caller holds `block` and the path to `parent`.
  std::optional<BlockId> publish(BlockId parent, std::span<const std::int32_t> tokens, BlockId block,
                                 KvHolder* holder = nullptr);

  // Keeps a block that is not full for those who may copy it, as a tail of the tree behind `parent`; the caller goes on
  // holding it. REQUIRES: as publish(), and this is the caller's last call for it before release().
  void keep_tail(BlockId parent, std::span<const std::int32_t> tokens, BlockId block);

  // Gives up all cached blocks, as if their memory were wanted; they do not count as evictions.
  void evict_all();

  std::size_t num_blocks() const { return pool_.num_blocks(); }
  std::size_t num_free() const { return pool_.num_free(); }
  std::size_t num_cached() const { return num_cached_; }  // held by nobody, kept for their prefix
  std::size_t num_available() const { return num_free() + num_cached(); }
  std::uint64_t num_evictions() const { return num_evictions_; }

  // Nobody holds it but the tree.
  bool is_cached(BlockId block) const { return pool_.num_holders(block) == 1 && tree_.contains(block); }
  // The tree does not count.
  std::uint32_t num_holders(BlockId block) const { return pool_.num_holders(block) - (tree_.contains(block) ? 1 : 0); }
  PrefixTree& tree() { return tree_; }
  const PrefixTree& tree() const { return tree_; }

 private:
  void evict_one();
  void add_leaf(BlockId block);
  void drop_leaf(BlockId block);
  // Behind a change of the pool's count: `holder` has come, or has let go.
  void holder_came(BlockId block, KvHolder* holder);
  void holder_went(BlockId block, KvHolder* holder);

  const bool prefix_cache_;
  BlockPool pool_;  // the tree counts as a holder of its nodes
  PrefixTree tree_;
  // By block: the addresses of its holders, combined by exclusive or. Of a block with one holder it is that one's.
  std::vector<std::uintptr_t> holders_;
  std::size_t num_cached_ = 0;
  std::uint64_t num_evictions_ = 0;
  std::uint64_t clock_ = 0;               // counts releases
  std::vector<std::uint64_t> last_used_;  // by block
  // Cached leaves, the least recently used first. Of one release the deepest goes first by itself: it alone is a leaf.
  std::set<std::pair<std::uint64_t, BlockId>> leaves_;
};

}  // namespace mortise
