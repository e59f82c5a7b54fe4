// runtime/kv/block_pool.hpp: hands out the KV blocks of one device and counts the holders of each.
// A block holds K and V of `block_size` consecutive tokens, all layers. Sequences with an equal prefix may hold the
// same block: it becomes free when its last holder releases it, not when the sequence that filled it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kv/lazy_array.hpp"

namespace mortise {

using BlockId = std::int32_t;

// Invariant between calls: num_free() + held blocks == num_blocks(). Engine's thread only; takes no lock.
class BlockPool {
 public:
  explicit BlockPool(std::size_t num_blocks);

  // Takes `n` blocks, one holder each, or takes none: half a prompt cannot be scheduled, yet it would keep memory from
  // a sequence that can. Returns nullopt when fewer than `n` are free; the scheduler then preempts.
  [[nodiscard]] std::optional<std::vector<BlockId>> allocate(std::size_t n);
  void share(BlockId id);    // Adds a holder. REQUIRES: the block has one already.
  void release(BlockId id);  // Drops a holder. REQUIRES: the block has one.

  std::size_t num_free() const { return free_.size(); }
  std::size_t num_blocks() const { return holders_.size(); }
  std::uint32_t num_holders(BlockId id) const { return holders_[static_cast<std::size_t>(id)]; }

 private:
  LazyArray<std::uint32_t> holders_;
  std::vector<BlockId> free_;  // a stack: the block freed last is most likely still in a cache
};

}  // namespace mortise
