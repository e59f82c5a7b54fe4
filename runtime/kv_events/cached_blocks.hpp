// runtime/kv_events/cached_blocks.hpp: the content of the prefix tree as its readers know it, and the events that
// describe its changes. Events have vLLM's form: {"type": "BlockStored" | "BlockRemoved" | "AllBlocksCleared", ...}.
// The name of a block is a hash of all tokens from the start of the sequence to the end of the block, so replicas of
// one model give a prefix the same name. It has 63 bits, because some readers take integers as signed. Used by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "kv_events/change_log.hpp"

namespace mortise {

// The stored blocks and their names. Invariant: a block is stored only while its parent is. Used by one thread.
class CachedBlocks {
 public:
  using Json = nlohmann::ordered_json;

  CachedBlocks(std::size_t num_blocks, std::int32_t block_size);

  // The events of the changes. A chain of stored blocks is one event, and so are consecutive removals.
  Json apply(const KvChanges& changes);
  // Returns the events that describe the whole tree to any reader: AllBlocksCleared, then every block after its parent.
  Json all() const;

 private:
  struct Block {
    std::uint64_t hash = 0;  // 0: not cached
    std::uint64_t parent = 0;
    std::uint64_t stored_at = 0;  // in blocks stored before, so parents come before children
    std::vector<std::int32_t> tokens;
  };
  Block& block(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  void add_stored(Json& events, const Block& block) const;

  const std::int32_t block_size_;
  std::vector<Block> blocks_;  // by id
  std::uint64_t num_stored_ = 0;
};

}  // namespace mortise
